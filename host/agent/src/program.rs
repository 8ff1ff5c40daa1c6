//! The program of a command line.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use codebox_agent::command::SHIM_DIR;
use codebox_core::{CommandRules, NotRun};
use rustix::fs::{Access, access};

/// Search path of an image that names none.
pub(crate) const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Finds the program of a command, which is never a shim. A name with a slash is returned as it is.
pub(crate) fn find(name: &OsStr, path: &OsStr) -> Result<PathBuf, NotRun> {
    let shown = || name.to_string_lossy().into_owned();
    if name.is_empty() {
        return Err(NotRun::NotFound(String::new()));
    }
    if name.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(name));
    }
    let mut not_executable = None;
    for dir in path.as_bytes().split(|byte| *byte == b':') {
        let dir = Path::new(OsStr::from_bytes(dir));
        if dir == Path::new(SHIM_DIR) {
            continue;
        }
        let file = dir.join(name);
        if file.is_file() {
            if access(&file, Access::EXEC_OK).is_ok() {
                return Ok(file);
            }
            not_executable.get_or_insert_with(|| NotRun::NotExecutable(format!("{}: permission denied", shown())));
        }
    }
    Err(not_executable.unwrap_or_else(|| NotRun::NotFound(shown())))
}

/// Checks a command against the rules of the box, by the name of its program.
pub(crate) fn check(rules: &CommandRules, argv0: &OsStr) -> Result<String, NotRun> {
    let name = Path::new(argv0).file_name().unwrap_or_default().to_string_lossy().into_owned();
    if rules.allows(&name) { Ok(name) } else { Err(NotRun::Denied(name)) }
}

/// Returns the reason that a program could not be started.
pub(crate) fn not_started(program: &OsStr, error: &std::io::Error) -> NotRun {
    let name = program.to_string_lossy().into_owned();
    match error.kind() {
        std::io::ErrorKind::NotFound => NotRun::NotFound(name),
        _ => NotRun::NotExecutable(format!("{name}: {error}")),
    }
}

/// Returns the exit status of a command that did not run, as shells have it, and the message for its caller.
pub(crate) fn status_of(not_run: &NotRun) -> (i32, String) {
    match not_run {
        NotRun::NotFound(name) => (127, format!("codebox: {name}: command not found")),
        NotRun::NotExecutable(reason) => (126, format!("codebox: {reason}")),
        NotRun::Denied(name) => (126, format!("codebox: {name}: not allowed by the rules of this box")),
    }
}

/// Returns bytes of the protocol as a word of a command line; `None` if they contain NUL.
pub(crate) fn word(bytes: &[u8]) -> Option<OsString> {
    (!bytes.contains(&0)).then(|| OsStr::from_bytes(bytes).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_programs_but_no_shims() {
        let path = OsString::from(format!("{SHIM_DIR}:/nonexistent:/usr/bin:/bin"));
        let found = find("cat".as_ref(), &path).expect("every system has it");
        assert!(found.ends_with("cat") && found.starts_with("/usr/bin") || found.starts_with("/bin"));
        assert_eq!(find("no-such-program".as_ref(), &path), Err(NotRun::NotFound("no-such-program".into())));
        assert_eq!(find("./x".as_ref(), &path), Ok(PathBuf::from("./x")));
        assert_eq!(
            find("passwd".as_ref(), "/etc".as_ref()),
            Err(NotRun::NotExecutable("passwd: permission denied".into()))
        );
        assert!(find("".as_ref(), &path).is_err());
    }

    #[test]
    fn checks_rules_by_the_last_component() {
        let rules = CommandRules { deny: ["git".to_owned()].into(), ..CommandRules::default() };
        assert_eq!(check(&rules, "/usr/bin/git".as_ref()), Err(NotRun::Denied("git".into())));
        assert_eq!(check(&rules, "cat".as_ref()), Ok("cat".into()));
        let rules = CommandRules { allow: Some(["cat".to_owned()].into()), ..CommandRules::default() };
        assert!(check(&rules, "cat".as_ref()).is_ok() && check(&rules, "sh".as_ref()).is_err());
    }
}
