//! Files of this machine that a program missed because it was not granted them, and files that it has left.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use codebox_core::path::MappedPath as _;
use codebox_core::{FileChanges, FileKind, GuestError, GuestPath, MissedFiles, RunReport};

use crate::rerun_command::{command_with, shell_line};

/// Directory of the program in the guest.
const PROGRAM_DIR: &str = "/run/codebox/";

/// Maximum number of characters of a name that the program has chosen.
const MAX_NAME: usize = 80;

/// Maximum length of a command that is named whole.
const MAX_COMMAND: usize = 400;

/// Working directory in the guest.
const WORK_DIR: &str = "/work/";

/// Returns the line that names a missed file and the command that grants it; `None` if the program failed for another reason. `script` is the
/// file of the program, if it has one.
pub(super) fn advice(error: &GuestError, script: Option<&Path>, args: &[OsString]) -> Option<String> {
    if let Some(file) = module_of_project(error).filter(|_| !has_home(Path::new(""))) {
        let command = command_with(args, ["--project", "."])?;
        return Some(format!("the program does not have {}; copy the project with: {command}", file.display()));
    }
    let (file, dir) = beside_script(error, script).or_else(|| below_current_dir(error))?;
    Some(granted(&file, &dir, args))
}

/// Returns the line about a file or directory of this machine among the arguments of a program that is granted none, and that has failed or
/// looked for it; `None` if there is none. Programs often handle the absence of a file themselves.
pub(super) fn advice_for_words(words: &[String], report: &RunReport, args: &[OsString]) -> Option<String> {
    let value = |word: &String| match word.split_once('=') {
        Some((option, value)) if option.starts_with('-') => value.to_owned(),
        _ => word.clone(),
    };
    let is_path = |word: &String| !word.is_empty() && !word.starts_with('-') && word != ".";
    let values: Vec<String> = words.iter().map(value).filter(is_path).collect();
    let is_missed = |word: &String| {
        let path = format!("{WORK_DIR}{}", word.trim_start_matches("./").trim_end_matches('/'));
        let missed =
            |absent: &String| absent.strip_prefix(&path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        !report.is_success() || report.missed.absent.iter().any(missed)
    };
    let here = values.iter().filter(|word| is_missed(word)).find_map(|word| existing(Path::new(""), word));
    if let Some(file) = here {
        return Some(granted(&file, ".", args));
    }
    values.iter().filter(|_| !report.is_success()).find_map(|word| advice_for_distant(word, args))
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
    let full = full_path(path)?;
    if is_of_system(dir) || has_home(dir) || full.to_string_lossy().split('/').any(codebox_service::is_left_out) {
        return None;
    }
    let changed: Vec<OsString> =
        args.iter().map(|arg| if arg == word { in_guest.clone().into() } else { arg.clone() }).collect();
    (changed != args).then_some(())?;
    Some(granted(path, &format!("{}:{DISTANT_DIR}", dir.to_str()?), &changed))
}

/// Directories of systems, which a program should not be granted because of one file.
const SYSTEM_DIRS: [&str; 14] =
    ["bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "opt", "proc", "run", "sbin", "sys", "usr", "var"];

/// Returns true for a directory that belongs to the system, unless it is below the home directory of the user.
fn is_of_system(dir: &Path) -> bool {
    let Some(full) = full_path(dir) else { return true };
    let home = std::env::home_dir().unwrap_or_default();
    if !home.as_os_str().is_empty() && full.starts_with(&home) {
        return false;
    }
    let first = full.components().nth(1).map(|part| part.as_os_str().to_owned());
    first.is_none_or(|first| SYSTEM_DIRS.iter().any(|name| first == *name))
}

/// Returns true for the home directory of the user, and for the directories that it is in: a program should get a part of them.
pub(super) fn has_home(dir: &Path) -> bool {
    let home = std::env::home_dir().unwrap_or_default();
    full_path(dir).is_none_or(|full| full == Path::new("/") || home.starts_with(full))
}

/// Returns a path without `..`, from the root.
fn full_path(path: &Path) -> Option<PathBuf> {
    let mut full = std::env::current_dir().ok()?;
    for part in path.components() {
        match part {
            Component::Prefix(_) | Component::RootDir => full = PathBuf::from("/"),
            Component::CurDir => {}
            Component::ParentDir => drop(full.pop()),
            Component::Normal(name) => full.push(name),
        }
    }
    Some(full)
}

/// Returns the line about a file or directory that the program looked for and that exists on this machine. Programs often handle the absence.
pub(super) fn advice_for_missed(report: &RunReport, script: Option<&Path>, args: &[OsString]) -> Option<String> {
    // A program may look if its output is there before it makes it.
    let is_made = |path: &&String| report.files.created.iter().any(|file| file.guest.as_str() == path.as_str());
    let mut missed = report.missed.absent.iter().filter(|path| !is_made(path));
    let (file, dir) = missed.find_map(|path| on_this_machine(path, script))?;
    Some(granted(&file, &dir, args))
}

/// Returns true for a path with a name that is not shown by default.
fn is_hidden(path: &str) -> bool {
    path.split('/').any(|name| name.starts_with('.') && !matches!(name, "." | ".."))
}

/// Returns true for a path that a program should not be granted because it looks for it, such as that of a file with secrets.
fn is_private(path: &str) -> bool {
    is_hidden(path) || path.split('/').any(codebox_service::is_left_out)
}

/// Returns the paths of files that were made and are gone, relative to the working directory.
fn lost<'f>(files: &'f FileChanges, writable: &'f [GuestPath]) -> impl Iterator<Item = &'f str> {
    let is_kept = |path: &GuestPath| writable.iter().any(|dir| path.is_within(dir));
    let made = files
        .created
        .iter()
        .filter(move |file| file.host.is_none() && file.kind == FileKind::Regular && !is_kept(&file.guest));
    made.filter_map(|file| file.guest.as_str().strip_prefix(WORK_DIR)).filter(|name| !is_hidden(name))
}

/// Returns the line about a database that the program has made and that exists on this machine with other content.
pub(super) fn advice_for_twins(files: &FileChanges, writable: &[GuestPath], args: &[OsString]) -> Option<String> {
    let is_database = |name: &&str| [".db", ".sqlite", ".sqlite3"].iter().any(|end| name.ends_with(end));
    let file = lost(files, writable).filter(is_database).find_map(|name| existing(Path::new(""), name))?;
    let way = way(".:rw", args);
    let file = file.display();
    Some(format!("the program has made a new {file}, as it is not granted the one that is there; grant it with{way}"))
}

/// Returns the line about a program that lists its working directory.
pub(super) fn advice_for_listing(args: &[OsString]) -> Option<String> {
    if has_home(Path::new("")) {
        return None;
    }
    let way = way(".", args);
    Some(format!(
        "the program lists its working directory, which does not have the files of the current one; grant them with{way}"
    ))
}

/// Returns the line about files that the program has left and that are gone.
pub(super) fn discarded(files: &FileChanges, writable: &[GuestPath]) -> Option<String> {
    let mut names = lost(files, writable).filter(|name| !name.split('/').any(|part| part == "__pycache__"));
    let first = quoted(names.next()?);
    let others = match names.count() {
        0 => String::new(),
        1 => " and another file".to_owned(),
        count => format!(" and {count} other files"),
    };
    let grant = if has_home(Path::new("")) { "" } else { ", or with --dir .:rw" };
    Some(format!("discarded {first}{others} that the program has left; keep such files with --out DIR{grant}"))
}

/// Returns a name that the program has chosen, in quotation marks and shortened.
fn quoted(name: &str) -> String {
    let shown: String = name.chars().take(MAX_NAME).flat_map(char::escape_debug).collect();
    let rest = if name.chars().nth(MAX_NAME).is_some() { "\u{2026}" } else { "" };
    format!("\"{shown}{rest}\"")
}

/// Returns the line that names a file and the command that grants a directory.
fn granted(file: &Path, dir: &str, args: &[OsString]) -> String {
    format!("the program is not granted {}; grant it with{}", file.display(), way(dir, args))
}

/// Returns the end of a line: the command with a grant, or the option alone if the command is long or grants too much.
fn way(dir: &str, args: &[OsString]) -> String {
    let host = dir.split(':').next().unwrap_or_default();
    if has_home(Path::new(host)) {
        return " --dir DIR, from a directory of its own".to_owned();
    }
    match command_with(args, ["--dir", dir]) {
        Some(command) if command.len() <= MAX_COMMAND => format!(": {command}"),
        _ => format!(" {}", shell_line(["--dir", dir])),
    }
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
pub(super) fn advice_to_write(error: &GuestError, script: Option<&Path>, read_only: &[GuestPath]) -> Option<String> {
    let is_refused = error.name == "PermissionError"
        || error.value.contains("Read-only file system")
        || ["EPERM: ", "EACCES: ", "EROFS: "].iter().any(|start| error.value.starts_with(start));
    let (before, _) = error.value.strip_suffix('\'').filter(|_| is_refused)?.split_once('\'')?;
    let path = &error.value[before.len() + 1..error.value.len() - 1];
    // An error of a copy or of a new name has both names.
    line_to_write(path.split_once("' -> '").map_or(path, |(from, _)| from), script, read_only)
}

/// Returns the line about a file that the program could not write, which it has handled.
pub(super) fn advice_for_refused(
    missed: &MissedFiles,
    script: Option<&Path>,
    read_only: &[GuestPath],
) -> Option<String> {
    missed.unwritable.iter().find_map(|path| line_to_write(path, script, read_only))
}

/// Returns true for a path that the program may not write because of its grant. Elsewhere, a write such as that of a link is refused for
/// another reason.
fn is_read_only(path: &str, read_only: &[GuestPath]) -> bool {
    let full = if path.starts_with('/') { path.to_owned() } else { format!("{WORK_DIR}{path}") };
    let is_granted = |path: GuestPath| read_only.iter().any(|dir| path.is_within(dir));
    full.starts_with(PROGRAM_DIR) || GuestPath::new(full.replace("/./", "/")).is_ok_and(is_granted)
}

fn line_to_write(path: &str, script: Option<&Path>, read_only: &[GuestPath]) -> Option<String> {
    if !is_read_only(path, read_only) {
        return None;
    }
    let (name, dir) = match path.strip_prefix(PROGRAM_DIR) {
        Some(name) => (name, script.and_then(Path::parent).and_then(grant_of).unwrap_or_else(|| ".".to_owned())),
        None => (path.strip_prefix(WORK_DIR).unwrap_or(path), ".".to_owned()),
    };
    let is_below = Path::new(name).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let host = dir.strip_suffix(":/work").unwrap_or(&dir);
    if !is_below || has_home(Path::new(host)) || is_private(name) {
        return None;
    }
    let which = if host == "." { "the current directory" } else { host };
    let option = shell_line(["--dir", &format!("{dir}:rw")]);
    Some(format!("the program may not write {}; grant {which} with {option}", quoted(name)))
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
    if !is_below || is_private(&path.to_string_lossy()) {
        return None;
    }
    // A link could lead to another directory.
    let mut file = dir.to_owned();
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        file.push(part);
        let found = file.symlink_metadata().ok()?;
        if found.is_symlink() && parts.peek().is_some() {
            return None;
        }
    }
    Some(file)
}

#[cfg(test)]
mod tests {
    use codebox_core::{BackendId, Isolation, Limits, Outcome, Provenance};

    use super::*;

    fn report(status: i32) -> RunReport {
        let provenance = Provenance::new(BackendId::new("wasm"), Isolation::Wasm);
        RunReport::new(Outcome::Exited(status), provenance, Limits::default())
    }

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
        let advice = |words: &[&str]| {
            advice_for_words(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), &report(1), &args)
        };
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
            let line = file.map(|file| {
                format!("the program may not write \"{file}\"; grant the current directory with --dir .:rw")
            });
            assert_eq!(advice_to_write(&error(name, value), None, &[GuestPath::work()]), line, "{value}");
            // The write was refused for another reason.
            let has_program = value.contains(PROGRAM_DIR);
            assert_eq!(advice_to_write(&error(name, value), None, &[]).is_some(), has_program, "{value}");
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
            let line = advice_for_words(std::slice::from_ref(&word), &report(1), &args).expect("it is there");
            assert!(line.ends_with(&format!("codebox run --dir {grant} a.py {argument}")), "{line}");
        }
        for word in ["/etc/passwd", "/", "/usr", "/no/such/file", "/data"] {
            let args = ["codebox", "run", "a.py", word].map(OsString::from);
            assert_eq!(advice_for_words(&[word.to_owned()], &report(1), &args), None, "{word}");
        }
    }

    #[test]
    fn handled_failures_are_named() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("data.txt"), "").expect("it is ours");
        let script = dir.path().join("main.py");
        let args = ["codebox", "run", "main.py"].map(OsString::from);
        let missed = |absent: &[&str], made: &[&str]| {
            let mut report = report(0);
            report.missed.absent = absent.iter().map(|path| (*path).to_owned()).collect();
            report.files = left(made);
            report
        };
        let advice = |absent: &[&str]| advice_for_missed(&missed(absent, &[]), Some(&script), &args);
        let line = advice(&["/work/none", "/work/Cargo.toml"]).expect("it is there");
        assert!(line.ends_with("not granted Cargo.toml; grant it with: codebox run --dir . main.py"), "{line}");
        let line = advice(&["/run/codebox/data.txt"]).expect("it is there");
        assert!(line.ends_with(&format!("--dir {}:/work main.py", dir.path().display())), "{line}");
        for absent in [&["/work/none"][..], &["/run/codebox/../x"], &["/work/../../etc/passwd"], &["/etc/passwd"], &[]]
        {
            assert_eq!(advice(absent), None, "{absent:?}");
        }
        let refused = MissedFiles { unwritable: vec!["/work/out/a.txt".to_owned()], ..MissedFiles::default() };
        assert!(
            advice_for_refused(&refused, None, &[GuestPath::work()])
                .expect("a line")
                .contains("may not write \"out/a.txt\"")
        );
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
            (&["a.txt"][..], Some("discarded \"a.txt\" that the program has left")),
            (&["a\u{1b}", "b"], Some("discarded \"a\\u{1b}\" and another file that")),
            (&["a", "b", "c", ".cache/x"], Some("discarded \"a\" and 2 other files that")),
            (&[".cache/x", "d/__pycache__/x"], None),
            (&[], None),
        ] {
            let line = discarded(&left(names), &[]);
            assert_eq!(line.is_some(), shown.is_some(), "{names:?}");
            assert!(line.unwrap_or_default().starts_with(shown.unwrap_or_default()), "{names:?}");
        }
        let args = ["codebox", "run", "main.py"].map(OsString::from);
        // The user has none of these.
        assert_eq!(advice_for_twins(&left(&["new.db", "Cargo.toml"]), &[], &args), None);
        let work = [GuestPath::work()];
        assert_eq!(discarded(&left(&["a.txt"]), &work), None);
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
