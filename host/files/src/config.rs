//! Configuration files, which are short and may be anywhere.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::{File, OpenOptions};

use crate::sys;

/// The users whose files are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustedOwners {
    /// This user and root, for a file that grants something.
    OwnOrRoot,
    /// All users, for a file that can only restrict.
    All,
}

/// Reads a configuration file of at most `max_bytes` bytes. Returns `None` if it does not exist.
///
/// Links are followed, because users keep such files elsewhere. Only regular files are read, and opening never blocks.
///
/// # Errors
/// An error if the file cannot be read, is not a regular file, is too long or not UTF-8, or is a dangling link. Also an
/// error if a user who is not `trusted` could change the file, or a directory or link on its path.
pub fn read_config(path: &Path, max_bytes: u64, trusted: TrustedOwners) -> io::Result<Option<String>> {
    if trusted == TrustedOwners::OwnOrRoot {
        // Removing or creating the file changes the configuration as much as writing to it.
        sys::check_resolved_path(path)?;
    }
    // Opening some devices has side effects, so the file type is checked first.
    match fs::metadata(path) {
        Ok(meta) if !meta.is_file() => return Err(not_regular()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut options = OpenOptions::new();
    let opened = File::open_ambient_with(path, sys::set_nonblock(options.read(true)), ambient_authority());
    let file = opened?.into_std();
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(not_regular());
    }
    if trusted == TrustedOwners::OwnOrRoot {
        sys::check_own_or_private(&meta).map_err(|why| io::Error::new(io::ErrorKind::PermissionDenied, why))?;
    }
    let mut text = String::new();
    file.take(max_bytes.saturating_add(1)).read_to_string(&mut text)?;
    if text.len() as u64 > max_bytes {
        return Err(io::Error::other(format!("it is larger than {max_bytes} bytes")));
    }
    Ok(Some(text))
}

fn not_regular() -> io::Error {
    io::Error::other("it is not a regular file")
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn read(path: &Path, trusted: TrustedOwners) -> Result<Option<String>, String> {
        read_config(path, 10, trusted).map_err(|error| error.to_string())
    }

    #[test]
    fn rejects_files_that_others_can_change() {
        let dir = tempfile::tempdir().expect("a directory");
        let below = dir.path().join("below");
        fs::create_dir(&below).expect("a directory");
        let (file, link) = (below.join("config.toml"), dir.path().join("link.toml"));
        assert_eq!(read(&file, TrustedOwners::OwnOrRoot), Ok(None));
        fs::write(&file, "a = 1").expect("a file");
        symlink(&file, &link).expect("a link");
        let text = Ok(Some("a = 1".to_owned()));
        for (of_file, of_dir, is_safe) in
            [(0o644, 0o755, true), (0o646, 0o755, false), (0o664, 0o755, false), (0o600, 0o777, false)]
        {
            fs::set_permissions(&file, Permissions::from_mode(of_file)).expect("a mode");
            fs::set_permissions(&below, Permissions::from_mode(of_dir)).expect("a mode");
            for path in [&file, &link] {
                assert_eq!(read(path, TrustedOwners::All), text);
                let read = read(path, TrustedOwners::OwnOrRoot);
                assert!(if is_safe { read == text } else { read.is_err_and(|why| why.contains("chmod go-w")) });
            }
        }
    }

    #[test]
    fn rejects_paths_that_others_can_change() {
        let dir = tempfile::tempdir().expect("a directory");
        let [open, own] = ["open", "own"].map(|name| dir.path().join(name));
        for below in [&open, &own] {
            fs::create_dir(below).expect("a directory");
        }
        fs::set_permissions(&open, Permissions::from_mode(0o777)).expect("a mode");
        fs::write(own.join("mine.toml"), "a = 1").expect("a file");
        symlink(own.join("mine.toml"), open.join("x")).expect("a link");
        symlink(open.join("x"), own.join("config.toml")).expect("a link");
        assert!(read(&own.join("config.toml"), TrustedOwners::OwnOrRoot).is_err(), "other users can change the link");
        assert!(read(&open.join("none.toml"), TrustedOwners::OwnOrRoot).is_err(), "other users can create the file");
        assert!(read(&open.join("none").join("config.toml"), TrustedOwners::OwnOrRoot).is_err());
        assert_eq!(read(&own.join("none").join("config.toml"), TrustedOwners::OwnOrRoot), Ok(None));
        symlink(own.join("missing"), own.join("dangling.toml")).expect("a link");
        let dangling = read(&own.join("dangling.toml"), TrustedOwners::OwnOrRoot);
        assert!(dangling.is_err_and(|why| why.contains("dangling.toml is a dangling symbolic link")));
        let below = read(&own.join("dangling.toml").join("config.toml"), TrustedOwners::OwnOrRoot);
        assert!(below.is_err_and(|why| why.contains("dangling symbolic link")));
    }

    #[test]
    fn reads_only_short_regular_files() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("config.toml");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).expect("a pipe");
        assert_eq!(read(&path, TrustedOwners::All), Err("it is not a regular file".to_owned()));
        assert_eq!(read(dir.path(), TrustedOwners::All), Err("it is not a regular file".to_owned()));
        fs::remove_file(&path).expect("removed");
        fs::write(&path, "a = 1234567").expect("a file");
        assert_eq!(read(&path, TrustedOwners::All), Err("it is larger than 10 bytes".to_owned()));
        fs::write(&path, [0xff]).expect("a file");
        assert!(read(&path, TrustedOwners::All).is_err());
    }
}
