//! Reading and checking of the script file.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use codebox_core::{Adapter, ByteSize, Language, Languages, ResultKind};

use super::denied::Denied;
use super::host_environment::{HostEnvironment, absolute};
use super::language;

/// Maximum size of a program.
pub const MAX_PROGRAM: ByteSize = ByteSize::mib(16);

/// A script file with its content.
pub(super) struct Script {
    /// Path as typed.
    pub typed: String,
    /// Path from the root, with its links.
    pub place: PathBuf,
    /// Canonical path; `None` if there is none, as for a pipe.
    pub canonical: Option<PathBuf>,
    /// True for a regular file, which can be read again, unlike a pipe.
    pub is_regular: bool,
    /// Content of the file.
    pub text: Vec<u8>,
    /// Language of the script.
    pub language: Language,
}

/// Reads the script at `path`, which is given as typed, with the arguments that follow it.
pub(super) fn read(
    path: &Path,
    args: &[String],
    language: Option<Language>,
    languages: &Languages,
    host_environment: &dyn HostEnvironment,
) -> Result<Script, Denied> {
    let shown = path.display().to_string();
    let typed = path.to_str().ok_or_else(|| refused(&shown, "its name is not UTF-8", "rename it"))?.to_owned();
    let place = absolute(path, host_environment).map_err(|error| unreadable(&shown, &error))?;
    let (text, is_regular) = bytes(&place, &shown).map_err(|denied| match place.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => missing(&shown, args),
        _ => denied,
    })?;
    let Some(language) = language.or_else(|| language::of(path, &text, languages, host_environment)) else {
        return Err(language::unknown(path, &shown));
    };
    check_size(text.len() as u64, &shown)?;
    if !language.spec().is_module {
        check_encoding(&text, &language, &shown)?;
    }
    Ok(Script { typed, canonical: place.canonicalize().ok(), place, is_regular, text, language })
}

/// Refuses a program that is larger than [`MAX_PROGRAM`].
pub(super) fn check_size(length: u64, subject: &str) -> Result<(), Denied> {
    if length <= MAX_PROGRAM.get() {
        return Ok(());
    }
    Err(Denied::new(
        ResultKind::InvalidRequest,
        "run",
        subject,
        format!("it is larger than {MAX_PROGRAM}"),
        "grant a directory with --dir and read the data from there",
    ))
}

/// Returns the content of a file, and true if the file is a regular one.
fn bytes(place: &Path, shown: &str) -> Result<(Vec<u8>, bool), Denied> {
    let fail = |error: io::Error| unreadable(shown, &error);
    let file = File::open(place).map_err(fail)?;
    let metadata = file.metadata().map_err(fail)?;
    if metadata.is_dir() {
        return Err(directory(shown));
    }
    // A pipe has no length, so the read itself is capped; one byte above the cap shows that the file is too large.
    let cap = MAX_PROGRAM.get() + 1;
    let mut text = Vec::with_capacity(ByteSize::bytes(metadata.len().min(cap)).as_len());
    file.take(cap).read_to_end(&mut text).map_err(fail)?;
    Ok((text, metadata.is_file()))
}

fn check_encoding(text: &[u8], language: &Language, shown: &str) -> Result<(), Denied> {
    let Err(fault) = std::str::from_utf8(text) else {
        return Ok(());
    };
    if language.adapter().is_some_and(|adapter| adapter.declared_encoding(text).is_some()) {
        return Ok(());
    }
    let line = 1 + text[..fault.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
    let fix = language.adapter().map_or("save it as UTF-8", Adapter::encoding_fix);
    Err(refused(shown, &format!("line {line} is not UTF-8"), fix))
}

pub(super) fn unreadable(shown: &str, error: &io::Error) -> Denied {
    match error.kind() {
        io::ErrorKind::NotFound => missing(shown, &[]),
        io::ErrorKind::NotADirectory => refused(shown, "part of its path is not a directory", "check the path"),
        io::ErrorKind::PermissionDenied => refused(shown, "permission denied", "make the file readable for this user"),
        // Windows cannot open directories as files.
        io::ErrorKind::IsADirectory => directory(shown),
        _ => refused(shown, &error.to_string(), "check the file"),
    }
}

/// Returns the refusal of a file that does not exist: it may be a command, or a directory as for `docker run -v`.
fn missing(shown: &str, args: &[String]) -> Denied {
    refused(shown, "no such file", &missing_fix(shown, args))
}

fn missing_fix(shown: &str, args: &[String]) -> String {
    let is_grant = shown.split_once(":/").is_some_and(|(host, _)| !host.is_empty() && !host.contains([' ', '\n']));
    let is_command = !shown.is_empty() && shown.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if is_grant && !shown.contains("://") {
        return format!("grant a directory with --dir {shown}; -v is --verbose");
    }
    if is_command {
        let words = [&[shown.to_owned()], args].concat().join(" ");
        return format!("check the name; a command, which runs in a container, follows --: codebox run -- {words}");
    }
    "check the name, or use -c to pass program text".to_owned()
}

fn directory(shown: &str) -> Denied {
    let inside = Path::new(shown).join("__main__.py");
    let fix = format!("pass a script in it, such as {}", inside.display());
    refused(shown, "it is a directory", &fix)
}

fn refused(shown: &str, detail: &str, fix: &str) -> Denied {
    Denied::new(ResultKind::InvalidRequest, "run", shown, detail, fix)
}
