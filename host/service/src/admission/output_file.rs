//! Files that codebox itself writes at a path that the user names, such as a log.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;

use codebox_core::ResultKind;
use codebox_files::{open_dir_without_symlinks, open_for_appending};

use super::denied::Denied;
use super::host_environment::{HostEnvironment, absolute};
use super::links;

/// Opens a regular file for reading and appending, and creates it if it is missing.
///
/// A link at or below the working directory is refused, because an earlier job may have created it to have another file
/// written to.
///
/// # Errors
/// Returns an error if the path contains such a link, is not that of a regular file, or cannot be opened.
pub fn open_output_file(path: &Path, host_environment: &dyn HostEnvironment) -> Result<File, Denied> {
    let shown = path.display().to_string();
    let fail = |error: io::Error| rejected(&shown, error.to_string());
    let typed = absolute(path, host_environment).map_err(fail)?;
    if let Some(link) = links::below_working_directory(&typed, host_environment).map_err(fail)? {
        return Err(rejected(&shown, link.reason()));
    }
    let not_a_file = || rejected(&shown, "it is not the name of a file".to_owned());
    let (dir, name): (&Path, &OsStr) = typed.parent().zip(typed.file_name()).ok_or_else(not_a_file)?;
    let dir = dir.canonicalize().and_then(|dir| open_dir_without_symlinks(&dir)).map_err(fail)?;
    open_for_appending(&dir, name).map_err(fail)
}

fn rejected(shown: &str, detail: String) -> Denied {
    Denied::new(ResultKind::PathRejected, "write", shown, detail, "name a regular file that can be written")
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsString;
    use std::io::{Seek as _, Write as _};
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    struct In(PathBuf);

    impl HostEnvironment for In {
        fn env_var(&self, _name: &str) -> Option<OsString> {
            None
        }

        fn current_dir(&self) -> io::Result<PathBuf> {
            Ok(self.0.clone())
        }
    }

    #[test]
    fn follows_no_link_that_a_job_could_have_created() {
        let dir = tempfile::tempdir().expect("a directory");
        let (work, elsewhere) = (dir.path().join("work"), dir.path().join("elsewhere"));
        std::fs::create_dir(&work).expect("the file is written");
        std::fs::create_dir(&elsewhere).expect("the file is written");
        std::fs::write(elsewhere.join("victim"), "precious").expect("the file is written");
        symlink(elsewhere.join("victim"), work.join("log.json")).expect("a link");
        symlink(elsewhere.join("absent"), work.join("dangling.json")).expect("a link");
        symlink(&elsewhere, work.join("sub")).expect("a link");
        let here = In(work.clone());
        for name in ["log.json", "dangling.json", "sub/victim", "sub/new", ".", "..", "absent/log.json"] {
            assert!(open_output_file(Path::new(name), &here).is_err(), "{name}");
        }
        assert_eq!(std::fs::read_to_string(elsewhere.join("victim")).expect("it is there"), "precious");
        assert!(!elsewhere.join("absent").exists() && !elsewhere.join("new").exists());
        assert!(open_output_file(Path::new("/dev/null"), &here).is_err());
    }

    #[test]
    fn creates_and_appends() {
        let dir = tempfile::tempdir().expect("a directory");
        let here = In(dir.path().canonicalize().expect("it exists"));
        for text in ["one", "two"] {
            let mut file = open_output_file(Path::new("log"), &here).expect("a file");
            file.rewind().expect("a regular file");
            file.write_all(text.as_bytes()).expect("the file is written");
        }
        assert_eq!(std::fs::read_to_string(dir.path().join("log")).expect("it is there"), "onetwo");
    }
}
