//! `codebox lock` and `codebox packages`.

use std::fmt::Write as _;
use std::{fs, io};

use codebox_core::{ResultKind, RunnerError};
use codebox_runner::Runner;
use codebox_service::config::normalized_name;
use codebox_service::{Program, Request, StoredPackage};
use serde_json::{Value, json};

use crate::answer;
use crate::args::{LockArgs, PackagesCommand};
use crate::render::{Escaped, Table, bytes};

/// Remedy for a program that is not in a file.
const BESIDE: &str = "pass a file: the lock file is written next to it";

/// Writes the lock file of a script.
pub(super) fn lock(args: LockArgs, runner: &Runner) -> Result<u8, RunnerError> {
    let LockArgs { file: script, with: packages, requirements, build, image } = args;
    let refused = |why: &str, fix: &str| {
        let line = format!("cannot lock {}: {why}", script.display());
        Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix))
    };
    match fs::metadata(&script) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && script.as_os_str() == "-" => {
            return refused("no such file", BESIDE);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return refused("no such file", "check the name"),
        // Reading a FIFO might never end, and a lock file beside it would be of no use.
        Ok(meta) if !meta.is_file() => return refused("it is not a regular file", BESIDE),
        // Admission reports other errors.
        Ok(_) | Err(_) => {}
    }
    let request = Request { packages, requirements, build, image, ..Request::new(Program::File(script.clone())) };
    let written = runner.lock(request, &script)?;
    answer::print(&format!("wrote {}\n", Escaped(&written.display().to_string())))
}

/// Lists, shows or removes packages.
pub(super) fn packages(command: PackagesCommand, runner: &Runner) -> Result<u8, RunnerError> {
    match command {
        PackagesCommand::List { json: false } => answer::print(&list(&runner.packages()?.list())),
        PackagesCommand::List { json: true } => {
            let package = |StoredPackage { name, file, content, size, targets, origin }| {
                let source = origin.map(|(file, content)| json!({ "file": file, "content": content }));
                json!({ "name": name, "file": file, "content": content, "size": size, "targets": targets, "source": source })
            };
            let packages: Vec<Value> = runner.packages()?.list().into_iter().map(package).collect();
            answer::print_json(&json!({ "packages": packages }))
        }
        PackagesCommand::Show { name } => {
            let mut kept = runner.packages()?.list();
            kept.retain(|package| normalized_name(&package.name) == normalized_name(&name));
            if kept.is_empty() {
                let line = format!("package {name:?} is not stored");
                return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("see codebox packages list"));
            }
            answer::print(&show(&kept))
        }
        PackagesCommand::Prune => {
            let (count, freed) = runner.packages()?.prune(runner.progress())?;
            answer::print(&format!("removed {count} packages and environments, {}\n", bytes(freed)))
        }
    }
}

fn list(kept: &[StoredPackage]) -> String {
    if kept.is_empty() {
        return "no packages are stored\n".to_owned();
    }
    let mut table = Table::new(["FILE", "SIZE", "FOR", "BUILT FROM"]);
    for StoredPackage { file, size, targets, origin, .. } in kept {
        let origin = origin.as_ref().map_or_else(String::new, |(file, _)| file.clone());
        table.row([file.clone(), bytes(*size), targets.join(", "), origin]);
    }
    table.to_string()
}

fn show(kept: &[StoredPackage]) -> String {
    let mut text = String::new();
    for StoredPackage { name: _, file, content, size, targets, origin } in kept {
        let (file, size, targets) = (Escaped(file), bytes(*size), targets.join(", "));
        let _ = writeln!(text, "{file}\n  content  {content}\n  size     {size}\n  for      {targets}");
        if let Some((source, content)) = origin {
            let _ = writeln!(text, "  built    from {}, {content}", Escaped(source));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_shows_packages() {
        let kept = StoredPackage {
            name: "Some_Name".to_owned(),
            file: "Some_Name-1.0-py3-none-any.whl".to_owned(),
            content: format!("sha256-{}", "ab".repeat(32)),
            size: 2048,
            targets: vec!["wasm-3.15".to_owned()],
            origin: None,
        };
        let origin = Some(("some_name-1.0.tar.gz".to_owned(), format!("sha256-{}", "cd".repeat(32))));
        let built = StoredPackage { origin, ..kept.clone() };
        assert!(list(std::slice::from_ref(&built)).ends_with("wasm-3.15  some_name-1.0.tar.gz\n"));
        assert!(show(&[built]).contains(&format!("from some_name-1.0.tar.gz, sha256-{}", "cd".repeat(32))));
        assert_eq!(list(&[]), "no packages are stored\n");
        let lines = list(std::slice::from_ref(&kept));
        assert!(lines.starts_with("FILE "), "{lines}");
        assert!(lines.ends_with("\nSome_Name-1.0-py3-none-any.whl  2.0 KiB  wasm-3.15\n"), "{lines}");
        assert_eq!(normalized_name(&kept.name), normalized_name("some__name"));
        assert!(show(&[kept]).contains(&"ab".repeat(32)));
    }
}
