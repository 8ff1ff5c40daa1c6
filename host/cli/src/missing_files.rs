//! Files of this machine that a program missed because it was not granted them.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use codebox_core::GuestError;

use crate::rerun_command::command_with;

/// Directory of the program in the guest.
const PROGRAM_DIR: &str = "/run/codebox/";

/// Returns the line that names a missed file and the command that grants it; `None` if the program failed for another reason. `script` is the
/// file of the program, if it has one.
pub(crate) fn advice(error: &GuestError, script: Option<&Path>, args: &[OsString]) -> Option<String> {
    if let Some(file) = module_of_project(error) {
        let command = command_with(args, ["--project", "."])?;
        return Some(format!("the program does not have {}; copy the project with: {command}", file.display()));
    }
    let (file, dir) = beside_script(error, script).or_else(|| below_current_dir(error))?;
    let command = command_with(args, ["--dir", &dir])?;
    Some(format!("the program is not granted {}; grant it with: {command}", file.display()))
}

/// Returns the line about a file or directory of this machine among the arguments of a program that is granted none; `None` if there is none.
/// Programs often handle the absence of a file themselves, or find a directory empty.
pub(crate) fn advice_for_words(words: &[String], args: &[OsString]) -> Option<String> {
    let value = |word: &String| match word.split_once('=') {
        Some((option, value)) if option.starts_with('-') => value.to_owned(),
        _ => word.clone(),
    };
    let is_path = |word: &String| !word.is_empty() && !word.starts_with('-') && word != ".";
    let file = words.iter().map(value).filter(is_path).find_map(|word| existing(Path::new(""), &word))?;
    let command = command_with(args, ["--dir", "."])?;
    Some(format!("the program is not granted {}; grant it with: {command}", file.display()))
}

/// Returns the line about a file of the working directory or beside the program that it could not write; `None` if it failed for another reason.
pub(crate) fn advice_to_write(error: &GuestError) -> Option<String> {
    let is_refused = error.name == "PermissionError"
        || ["EPERM: ", "EACCES: ", "EROFS: "].iter().any(|start| error.value.starts_with(start));
    let (before, _) = error.value.strip_suffix('\'').filter(|_| is_refused)?.split_once('\'')?;
    let path = &error.value[before.len() + 1..error.value.len() - 1];
    let path = path.strip_prefix(PROGRAM_DIR).or_else(|| path.strip_prefix("/work/")).unwrap_or(path);
    let is_below = Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let shown = path.escape_debug();
    is_below.then(|| format!("the program may not write {shown}; grant the current directory with --dir .:rw"))
}

/// Returns a module of the current directory that could not be run by its name.
fn module_of_project(error: &GuestError) -> Option<PathBuf> {
    // The second text is that of a module in a package.
    let name = match error.value.strip_prefix("No module named ") {
        Some(name) => name.split(['.', ';']).next().filter(|name| !name.starts_with('\''))?,
        None => {
            error.value.strip_prefix("Error while finding module specification for '")?.split(['.', '\'']).next()?
        }
    };
    [format!("{name}.py"), name.to_owned()].iter().find_map(|name| existing(Path::new(""), name))
}

/// Returns a module beside the program that it could not import, and the grant of its directory.
fn beside_script(error: &GuestError, script: Option<&Path>) -> Option<(PathBuf, String)> {
    let dir = script?.parent()?;
    let names = match error.value.strip_prefix("No module named '") {
        Some(rest) => {
            let name = rest.split(['.', '\'']).next().filter(|name| !name.is_empty())?;
            vec![format!("{name}.py"), name.to_owned()]
        }
        None => {
            let path = error.value.strip_prefix("Cannot find module '")?.split('\'').next()?;
            let name = path.strip_prefix(PROGRAM_DIR).or_else(|| path.strip_prefix("./"))?;
            ["", ".js", ".ts", ".mjs", ".json"].map(|extension| format!("{name}{extension}")).to_vec()
        }
    };
    let file = names.iter().find_map(|name| existing(dir, name))?;
    let is_current = dir.as_os_str().is_empty() || dir == Path::new(".");
    Some((file, if is_current { ".".to_owned() } else { format!("{}:/work", dir.to_str()?) }))
}

/// Returns a file by a path that the program could not open, and the grant of the current directory.
fn below_current_dir(error: &GuestError) -> Option<(PathBuf, String)> {
    let is_missing = error.name == "FileNotFoundError" || error.value.starts_with("ENOENT: ");
    let (before, _) = error.value.strip_suffix('\'').filter(|_| is_missing)?.split_once('\'')?;
    let path = &error.value[before.len() + 1..error.value.len() - 1];
    Some((existing(Path::new(""), path)?, ".".to_owned()))
}

/// Returns the path of a file below a directory, if there is one.
fn existing(dir: &Path, path: &str) -> Option<PathBuf> {
    let path = Path::new(path);
    let is_below = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let file = dir.join(path);
    (is_below && file.symlink_metadata().is_ok()).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(name: &str, value: &str) -> GuestError {
        GuestError {
            name: name.to_owned(),
            value: value.to_owned(),
            traceback: Vec::new(),
            line: None,
            frames: Vec::new(),
        }
    }

    #[test]
    fn modules_beside_the_program_are_named() {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["sib.py", "mod.js"] {
            std::fs::write(dir.path().join(name), "").expect("it is ours");
        }
        std::fs::create_dir(dir.path().join("pkg")).expect("a directory");
        let script = dir.path().join("main.py");
        let args = ["codebox", "run", "main.py"].map(OsString::from);
        for (name, value, file) in [
            ("ModuleNotFoundError", "No module named 'sib'", Some("sib.py")),
            ("ModuleNotFoundError", "No module named 'pkg.inner'", Some("pkg")),
            ("ModuleNotFoundError", "No module named 'other'", None),
            ("ModuleNotFoundError", "No module named '../main'", None),
            ("Error", "Cannot find module '/run/codebox/mod.js' imported from /run/codebox/b.mjs", Some("mod.js")),
            ("Error", "Cannot find module './mod'\nRequire stack:", Some("mod.js")),
            ("Error", "Cannot find module '/run/codebox/../x'", None),
            ("FileNotFoundError", "[Errno 44] No such file or directory: '/etc/passwd'", None),
            ("FileNotFoundError", "[Errno 44] No such file or directory: 'no/such/file'", None),
            ("ValueError", "No such 'Cargo.toml'", None),
        ] {
            let advice = advice(&error(name, value), Some(&script), &args);
            let expected = file.map(|file| {
                let dir = dir.path().display();
                format!("the program is not granted {dir}/{file}; grant it with: codebox run --dir {dir}:/work main.py")
            });
            assert_eq!(advice, expected, "{value}");
        }
    }

    #[test]
    fn arguments_and_refused_writes_are_named() {
        let args = ["codebox", "run", "a.py", "Cargo.toml"].map(OsString::from);
        let advice =
            |words: &[&str]| advice_for_words(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), &args);
        for words in [&["Cargo.toml"][..], &["-v", "x", "src"], &["--in=Cargo.toml"], &["./src/"]] {
            let line = advice(words).expect("it is there");
            assert!(line.ends_with("grant it with: codebox run --dir . a.py Cargo.toml"), "{line}");
        }
        for words in [&["no-such-file", "-", ".", "", "/etc/passwd", "../cli"][..], &["--Cargo.toml"], &[]] {
            assert_eq!(advice(words), None, "{words:?}");
        }
        for (name, value, file) in [
            ("PermissionError", "[Errno 63] Operation not permitted: 's.md'", Some("s.md")),
            ("Error", "EPERM: operation not permitted, open '/run/codebox/log.txt'", Some("log.txt")),
            ("PermissionError", "[Errno 63] Operation not permitted: '/etc/x'", None),
            ("PermissionError", "[Errno 63] Operation not permitted: '../x'", None),
            ("ValueError", "'s.md'", None),
        ] {
            let line = file
                .map(|file| format!("the program may not write {file}; grant the current directory with --dir .:rw"));
            assert_eq!(advice_to_write(&error(name, value)), line, "{value}");
        }
    }

    #[test]
    fn files_below_the_current_directory_are_named() {
        let args = ["codebox", "-q", "run", "-c", "open('Cargo.toml')"].map(OsString::from);
        for value in ["[Errno 2] No such file or directory: 'Cargo.toml'", "[Errno 44] x: './Cargo.toml'"] {
            let advice = advice(&error("FileNotFoundError", value), None, &args).expect("it is there");
            assert!(advice.ends_with("codebox -q run --dir . -c 'open('\\''Cargo.toml'\\'')'"), "{advice}");
        }
        let missed = error("Error", "ENOENT: no such file or directory, open 'Cargo.toml'");
        assert!(advice(&missed, None, &args).is_some());
    }
}
