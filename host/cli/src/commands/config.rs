//! `codebox config`.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;

use codebox_core::{ResultKind, RunnerError};
use codebox_service::config::{ConfigFiles, ConfigOrigin, ConfigValue};
use serde::Serialize;

use crate::answer;
use crate::args::ConfigCommand;
use crate::render::Table;

/// Content of a new file.
const NEW_FILE: &str = "# Configuration of codebox: https://toml.io. `codebox config check` reads it.\n";

/// Runs a command of `codebox config`.
pub(super) fn config(command: ConfigCommand, files: &ConfigFiles) -> Result<u8, RunnerError> {
    match command {
        ConfigCommand::Show { json } => show(json, files),
        ConfigCommand::Path => answer::print(&paths(files)),
        ConfigCommand::Check => {
            files.check()?;
            answer::print(&paths(files))
        }
        ConfigCommand::Edit => edit(files),
    }
}

fn paths(files: &ConfigFiles) -> String {
    let ConfigFiles { user, project } = files;
    let mut table = Table::new(["OF", "FILE", "STATE"]);
    for (owner, path) in [("user", user), ("project", project)] {
        let state = if path.symlink_metadata().is_ok() { "present" } else { "missing" };
        table.row([owner.to_owned(), path.display().to_string(), state.to_owned()]);
    }
    table.to_string()
}

/// A value of the document.
#[derive(Serialize)]
struct Line {
    key: String,
    value: String,
    from: &'static str,
    file: Option<String>,
}

fn show(is_json: bool, files: &ConfigFiles) -> Result<u8, RunnerError> {
    let line = |ConfigValue { key, value, origin }: ConfigValue| {
        let (from, file) = match origin {
            ConfigOrigin::User => ("user", Some(files.user.display().to_string())),
            ConfigOrigin::Project => ("project", Some(files.project.display().to_string())),
            ConfigOrigin::Default => ("default", None),
        };
        Line { key, value: without_password(&value), from, file }
    };
    let lines: Vec<Line> = files.values()?.into_iter().map(line).collect();
    if is_json {
        return answer::print_json(&serde_json::json!({ "values": lines }));
    }
    let mut table = Table::new(["KEY", "VALUE", "FROM"]);
    for Line { key, value, from, file } in lines {
        let from = file.map_or_else(|| from.to_owned(), |file| format!("{from}: {file}"));
        table.row([key, value, from]);
    }
    answer::print(&table.to_string())
}

/// Returns a value with the user and the password of each URL replaced.
fn without_password(value: &str) -> String {
    let mut parts = value.split("://");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(['/', '"', '\'', ' ', '?', '#']).unwrap_or(part.len());
        let host = part[..end].rfind('@').map_or(0, |at| at + 1);
        text.push_str(if host == 0 { "://" } else { "://***@" });
        text.push_str(&part[host..]);
    }
    text
}

/// Opens the user's file in the editor of the environment, and checks it afterwards.
fn edit(files: &ConfigFiles) -> Result<u8, RunnerError> {
    let path = &files.user;
    let failed = |error: io::Error| {
        let line = format!("cannot edit {}: {error}", path.display());
        RunnerError::new(ResultKind::InvalidRequest, line).with_fix("check the file and its directory")
    };
    create(path).map_err(failed)?;
    let named =
        ["VISUAL", "EDITOR"].into_iter().find_map(|name| std::env::var(name).ok().filter(|text| !text.is_empty()));
    let named = named.ok_or_else(|| {
        let line = format!("cannot edit {}: no editor is set", path.display());
        RunnerError::new(ResultKind::InvalidRequest, line).with_fix("set EDITOR, such as EDITOR=vi")
    })?;
    // The variables may have arguments.
    let mut words = named.split_ascii_whitespace();
    let mut editor = Command::new(words.next().unwrap_or_default());
    let status = editor.args(words).arg(path).status().map_err(|error| {
        let line = format!("cannot start the editor {named}: {error}");
        RunnerError::new(ResultKind::InvalidRequest, line).with_fix("set EDITOR to a program that exists")
    })?;
    if !status.success() {
        let line = format!("the editor {named} failed: {status}");
        return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("check EDITOR"));
    }
    files.check()?;
    Ok(0)
}

/// Creates the file with its directory if it is missing.
fn create(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(mut file) => file.write_all(NEW_FILE.as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_urls_are_not_shown() {
        for (value, shown) in [
            ("\"https://user:word@host/simple\"", "\"https://***@host/simple\""),
            ("[\"https://a/b@c\", \"https://t@b\"]", "[\"https://a/b@c\", \"https://***@b\"]"),
            ("\"https://u:p@q@host\"", "\"https://***@host\""),
            ("3", "3"),
        ] {
            assert_eq!(without_password(value), shown);
        }
    }
}
