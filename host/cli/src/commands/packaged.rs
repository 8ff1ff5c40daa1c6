//! `codebox x`: programs of packages, such as console scripts of Python and `bin` of npm.

use std::path::{Component, Path, PathBuf};

use codebox_core::{Language, ResultKind, RunnerError};

use crate::args::{PackagedArgs, RunArgs};
use crate::messages::Messages;

/// Files that show that the current directory is a project.
const MANIFESTS: [&str; 3] = ["pyproject.toml", "requirements.txt", "package.json"];

/// Program that runs a console script of Python, or a program of a package in its directory `bin`.
const PYTHON: &str = include_str!("packaged/run.py");

/// Program that runs a program of a package of npm.
const NODE: &str = include_str!("packaged/run.js");

/// Name of a program, with the package that has it.
#[derive(Debug, PartialEq, Eq)]
struct Packaged {
    name: String,
    package: String,
}

/// Returns the run of a program of a package.
pub(super) fn run_of(args: PackagedArgs, messages: Messages) -> Result<RunArgs, RunnerError> {
    let PackagedArgs { from, npm, no_project, mut run } = args;
    let invalid = |line: &str, fix: &str| Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix));
    if run.code.is_some() || run.module.is_some() || run.lang.is_some() {
        return invalid("cannot use -c, -m and --lang with codebox x", "use them with codebox run");
    }
    let mut words = run.program_words();
    if words.is_empty() {
        return invalid("no program to run", "name a program of a package, as in codebox x ruff check");
    }
    let first = words.remove(0);
    let Some(Packaged { name, package }) = first.to_str().and_then(|word| packaged(word, from.as_deref(), npm)) else {
        let line = format!("cannot run {}: it is not the name of a program of a package", first.display());
        let fix = "pass a name such as ruff or ruff@0.6.0, or the package with --from, as in --from 'ruff>=0.6' ruff";
        return invalid(&line, fix);
    };
    if run.project.is_none() && !no_project && wants_files(&words) {
        run.project = Some(PathBuf::from("."));
        messages.note(format_args!("{name} gets copies of the files of this directory; --no-project leaves them out"));
    }
    run.code = Some(text_of(npm, &name, &package));
    run.lang = Some(if npm { Language::JavaScript } else { Language::Python });
    run.with.insert(0, package);
    run.words = words;
    Ok(run)
}

/// Returns true if the current directory is a project, or if an argument names a file or directory below it.
fn wants_files(words: &[std::ffi::OsString]) -> bool {
    let names_file = |word: &std::ffi::OsString| {
        let path = Path::new(word);
        let is_below = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        !word.as_encoded_bytes().starts_with(b"-") && is_below && path.symlink_metadata().is_ok()
    };
    MANIFESTS.iter().any(|name| Path::new(name).is_file()) || words.iter().any(names_file)
}

/// Splits `NAME@VERSION`, and returns the program and the package with its version; `None` for text that names no program.
fn packaged(word: &str, from: Option<&str>, npm: bool) -> Option<Packaged> {
    // The first character may be the `@` of a scope.
    let at = word.char_indices().skip(1).find(|(_, c)| *c == '@').map(|(at, _)| at);
    let (package, version) = match at {
        Some(at) => (&word[..at], Some(&word[at + 1..])),
        None => (word, None),
    };
    let name = if npm { package.rsplit('/').next()? } else { package };
    let is_plain =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    let scope = package.strip_suffix(name)?.trim_end_matches('/');
    let is_scope = scope.is_empty() || npm && scope.strip_prefix('@').is_some_and(is_plain);
    if !is_plain(name) || name.starts_with(['.', '-']) || !is_scope || !version.is_none_or(is_plain) {
        return None;
    }
    let package = match (from, version) {
        (Some(from), _) => from.to_owned(),
        (None, None | Some("latest")) => package.to_owned(),
        (None, Some(version)) if npm => format!("{package}@{version}"),
        (None, Some(version)) => format!("{package}=={version}"),
    };
    Some(Packaged { name: name.to_owned(), package })
}

/// Returns the text of the program that runs another one.
fn text_of(npm: bool, name: &str, package: &str) -> String {
    if !npm {
        return PYTHON.replace("{name}", name);
    }
    let at = package.char_indices().skip(1).find(|(_, c)| *c == '@').map_or(package.len(), |(at, _)| at);
    NODE.replace("{name}", name).replace("{package}", &package[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_from_versions() {
        for (word, from, npm, name, package) in [
            ("ruff", None, false, "ruff", "ruff"),
            ("ruff@0.6.0", None, false, "ruff", "ruff==0.6.0"),
            ("ruff@latest", None, false, "ruff", "ruff"),
            ("http", Some("httpie>=3"), false, "http", "httpie>=3"),
            ("cowsay@1", None, true, "cowsay", "cowsay@1"),
            ("@scope/tool@2", None, true, "tool", "@scope/tool@2"),
        ] {
            let expected = Packaged { name: name.to_owned(), package: package.to_owned() };
            assert_eq!(packaged(word, from, npm), Some(expected), "{word}");
        }
        for (word, npm) in [
            ("", false),
            ("../a", false),
            ("-q", false),
            ("a b", false),
            ("@s/a", false),
            ("a/b", true),
            ("a@", true),
            ("a'", false),
        ] {
            assert_eq!(packaged(word, None, npm), None, "{word}");
        }
        assert!(text_of(true, "tool", "@scope/tool@2").contains("'/node_modules/@scope/tool'"));
    }
}
