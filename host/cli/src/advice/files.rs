//! Files of this machine that a program missed because it was not granted them, and files that it has left.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use codebox_core::{FileChanges, FileKind, GuestError, MissedFiles};

use crate::rerun_command::command_with;

/// Directory of the program in the guest.
const PROGRAM_DIR: &str = "/run/codebox/";

/// Working directory in the guest.
const WORK_DIR: &str = "/work/";

/// Returns the line that names a missed file and the command that grants it; `None` if the program failed for another reason. `script` is the
/// file of the program, if it has one.
pub(super) fn advice(error: &GuestError, script: Option<&Path>, args: &[OsString]) -> Option<String> {
    if let Some(file) = module_of_project(error) {
        let command = command_with(args, ["--project", "."])?;
        return Some(format!("the program does not have {}; copy the project with: {command}", file.display()));
    }
    let (file, dir) = beside_script(error, script).or_else(|| below_current_dir(error))?;
    granted(&file, &dir, args)
}

/// Returns the line about a file or directory of this machine among the arguments of a program that is granted none; `None` if there is none.
/// Programs often handle the absence of a file themselves, or find a directory empty.
pub(super) fn advice_for_words(words: &[String], args: &[OsString]) -> Option<String> {
    let value = |word: &String| match word.split_once('=') {
        Some((option, value)) if option.starts_with('-') => value.to_owned(),
        _ => word.clone(),
    };
    let is_path = |word: &String| !word.is_empty() && !word.starts_with('-') && word != ".";
    let values: Vec<String> = words.iter().map(value).filter(is_path).collect();
    if let Some(file) = values.iter().find_map(|word| existing(Path::new(""), word)) {
        return granted(&file, ".", args);
    }
    values.iter().find_map(|word| advice_for_distant(word, args))
}

/// Directory in the guest of a directory that is not below the current one.
const DISTANT_DIR: &str = "/data";

/// Returns the line about an argument that names a file outside of the current directory, which has another path in the guest.
fn advice_for_distant(word: &str, args: &[OsString]) -> Option<String> {
    let path = Path::new(word);
    let is_distant = path.is_absolute() || path.starts_with("..");
    let kind = path.symlink_metadata().ok().filter(|_| is_distant)?;
    let (dir, in_guest) = match kind.is_dir() {
        true => (path, DISTANT_DIR.to_owned()),
        false => (path.parent()?, format!("{DISTANT_DIR}/{}", path.file_name()?.to_str()?)),
    };
    if is_of_system(dir) {
        return None;
    }
    let changed: Vec<OsString> =
        args.iter().map(|arg| if arg == word { in_guest.clone().into() } else { arg.clone() }).collect();
    (changed != args).then_some(())?;
    granted(path, &format!("{}:{DISTANT_DIR}", dir.to_str()?), &changed)
}

/// Directories of systems, which a program should not be granted because of one file.
const SYSTEM_DIRS: [&str; 14] =
    ["bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "opt", "proc", "run", "sbin", "sys", "usr", "var"];

/// Returns true for a directory that belongs to the system, and for those above the home directory of the user.
fn is_of_system(dir: &Path) -> bool {
    let home = std::env::home_dir().unwrap_or_default();
    if !dir.is_absolute() || dir != home && dir.starts_with(&home) && !home.as_os_str().is_empty() {
        return false;
    }
    let first = dir.components().nth(1).map(|part| part.as_os_str().to_owned());
    dir == home || home.starts_with(dir) || first.is_none_or(|first| SYSTEM_DIRS.iter().any(|name| first == *name))
}

/// Returns the line about a file or directory that the program looked for and that exists on this machine. Programs often handle the absence.
pub(super) fn advice_for_missed(missed: &MissedFiles, script: Option<&Path>, args: &[OsString]) -> Option<String> {
    let (file, dir) = missed.absent.iter().find_map(|path| on_this_machine(path, script))?;
    granted(&file, &dir, args)
}

/// Returns the line about a file that the program has made and that exists on this machine with other content, such as a database.
pub(super) fn advice_for_twins(files: &FileChanges, args: &[OsString]) -> Option<String> {
    let made = files.created.iter().filter(|file| file.host.is_none() && file.kind == FileKind::Regular);
    let file = made
        .filter_map(|file| file.guest.as_str().strip_prefix(WORK_DIR))
        .find_map(|name| existing(Path::new(""), name))?;
    let command = command_with(args, ["--dir", ".:rw"])?;
    Some(format!(
        "the program has made a new {}, as it is not granted the one that is there; grant it with: {command}",
        file.display()
    ))
}

/// Returns the line about a program that lists its working directory.
pub(super) fn advice_for_listing(args: &[OsString]) -> Option<String> {
    let command = command_with(args, ["--dir", "."])?;
    Some(format!(
        "the program lists its working directory, which does not have the files of the current one; grant them with: {command}"
    ))
}

/// Returns the line about files that the program has left and that are gone.
pub(super) fn discarded(files: &FileChanges) -> Option<String> {
    let left = || files.created.iter().filter(|file| file.host.is_none() && file.kind == FileKind::Regular);
    let names = left().filter_map(|file| file.guest.as_str().strip_prefix(WORK_DIR));
    let mut names = names.filter(|name| !name.split('/').any(|part| part.starts_with('.') || part == "__pycache__"));
    let first = names.next()?;
    let others = match names.count() {
        0 => String::new(),
        1 => " and another file".to_owned(),
        count => format!(" and {count} other files"),
    };
    Some(format!(
        "discarded {}{others} that the program has left; keep such files with --out DIR, or with --dir .:rw",
        first.escape_debug()
    ))
}

/// Returns the line that names a file and the command that grants a directory.
fn granted(file: &Path, dir: &str, args: &[OsString]) -> Option<String> {
    let command = command_with(args, ["--dir", dir])?;
    Some(format!("the program is not granted {}; grant it with: {command}", file.display()))
}

/// Returns the file of this machine for a path in the guest, and the grant of its directory.
fn on_this_machine(path: &str, script: Option<&Path>) -> Option<(PathBuf, String)> {
    if let Some(name) = path.strip_prefix(WORK_DIR) {
        return Some((existing(Path::new(""), name)?, ".".to_owned()));
    }
    let dir = script?.parent()?;
    Some((existing(dir, path.strip_prefix(PROGRAM_DIR)?)?, grant_of(dir)?))
}

/// Returns the grant of the program's directory.
fn grant_of(dir: &Path) -> Option<String> {
    let is_current = dir.as_os_str().is_empty() || dir == Path::new(".");
    Some(if is_current { ".".to_owned() } else { format!("{}:/work", dir.to_str()?) })
}

/// Returns the line about a file of the working directory or beside the program that it could not write; `None` if it failed for another reason.
pub(super) fn advice_to_write(error: &GuestError) -> Option<String> {
    let is_refused = error.name == "PermissionError"
        || error.value.contains("Read-only file system")
        || ["EPERM: ", "EACCES: ", "EROFS: "].iter().any(|start| error.value.starts_with(start));
    let (before, _) = error.value.strip_suffix('\'').filter(|_| is_refused)?.split_once('\'')?;
    let path = &error.value[before.len() + 1..error.value.len() - 1];
    line_to_write(path)
}

/// Returns the line about a file that the program could not write, which it has handled.
pub(super) fn advice_for_refused(missed: &MissedFiles) -> Option<String> {
    missed.unwritable.iter().find_map(|path| line_to_write(path))
}

fn line_to_write(path: &str) -> Option<String> {
    let path = path.strip_prefix(PROGRAM_DIR).or_else(|| path.strip_prefix(WORK_DIR)).unwrap_or(path);
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
            let mut names = ["", ".js", ".ts", ".mjs", ".json"].map(|extension| format!("{name}{extension}")).to_vec();
            // TypeScript names its files by those that are made from them.
            names.extend(
                [(".js", ".ts"), (".mjs", ".mts"), (".jsx", ".tsx")]
                    .iter()
                    .filter_map(|(made, typed)| Some(format!("{}{typed}", name.strip_suffix(made)?))),
            );
            names
        }
    };
    let file = names.iter().find_map(|name| existing(dir, name))?;
    Some((file, grant_of(dir)?))
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
    fn files_in_other_directories_are_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("a.txt");
        std::fs::write(&file, "").expect("it is ours");
        let shown = dir.path().display();
        for (word, grant, argument) in [
            (file.to_str().expect("text").to_owned(), format!("{shown}:/data"), "/data/a.txt"),
            (shown.to_string(), format!("{shown}:/data"), "/data"),
            ("../core/Cargo.toml".to_owned(), "../core:/data".to_owned(), "/data/Cargo.toml"),
        ] {
            let args = ["codebox", "run", "a.py", &word].map(OsString::from);
            let line = advice_for_words(std::slice::from_ref(&word), &args).expect("it is there");
            assert!(line.ends_with(&format!("codebox run --dir {grant} a.py {argument}")), "{line}");
        }
        for word in ["/etc/passwd", "/", "/usr", "/no/such/file", "/data"] {
            let args = ["codebox", "run", "a.py", word].map(OsString::from);
            assert_eq!(advice_for_words(&[word.to_owned()], &args), None, "{word}");
        }
    }

    #[test]
    fn handled_failures_are_named() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("data.txt"), "").expect("it is ours");
        let script = dir.path().join("main.py");
        let args = ["codebox", "run", "main.py"].map(OsString::from);
        let missed = |absent: &[&str]| MissedFiles {
            absent: absent.iter().map(|path| (*path).to_owned()).collect(),
            ..MissedFiles::default()
        };
        let advice = |absent: &[&str]| advice_for_missed(&missed(absent), Some(&script), &args);
        let line = advice(&["/work/none", "/work/Cargo.toml"]).expect("it is there");
        assert!(line.ends_with("not granted Cargo.toml; grant it with: codebox run --dir . main.py"), "{line}");
        let line = advice(&["/run/codebox/data.txt"]).expect("it is there");
        assert!(line.ends_with(&format!("--dir {}:/work main.py", dir.path().display())), "{line}");
        for absent in [&["/work/none"][..], &["/run/codebox/../x"], &["/work/../../etc/passwd"], &["/etc/passwd"], &[]]
        {
            assert_eq!(advice(absent), None, "{absent:?}");
        }
        let refused = MissedFiles { unwritable: vec!["/work/out/a.txt".to_owned()], ..MissedFiles::default() };
        assert!(advice_for_refused(&refused).expect("a line").contains("may not write out/a.txt"));
    }

    fn left(names: &[&str]) -> FileChanges {
        let file = |name: &&str| codebox_core::OutFile {
            guest: codebox_core::GuestPath::new(format!("/work/{name}")).expect("a path"),
            host: None,
            size: 1,
            sha256: None,
            kind: FileKind::Regular,
        };
        FileChanges { created: names.iter().map(file).collect(), ..FileChanges::default() }
    }

    #[test]
    fn discarded_files_are_named() {
        for (names, shown) in [
            (&["a.txt"][..], Some("discarded a.txt that the program has left")),
            (&["a\u{1b}", "b"], Some("discarded a\\u{1b} and another file that")),
            (&["a", "b", "c", ".cache/x"], Some("discarded a and 2 other files that")),
            (&[".cache/x", "d/__pycache__/x"], None),
            (&[], None),
        ] {
            let line = discarded(&left(names));
            assert_eq!(line.is_some(), shown.is_some(), "{names:?}");
            assert!(line.unwrap_or_default().starts_with(shown.unwrap_or_default()), "{names:?}");
        }
        let args = ["codebox", "run", "main.py"].map(OsString::from);
        let line = advice_for_twins(&left(&["new.db", "Cargo.toml"]), &args).expect("it is there");
        assert!(line.ends_with("codebox run --dir .:rw main.py") && line.contains("Cargo.toml"), "{line}");
        assert_eq!(advice_for_twins(&left(&["new.db"]), &args), None);
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
