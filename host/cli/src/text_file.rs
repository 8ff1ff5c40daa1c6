//! Texts that a command reads from a file or from standard input.

use std::io::{self, Read as _};
use std::path::Path;

use codebox_core::{ResultKind, RunnerError};
use codebox_service::MAX_PROGRAM;

/// Reads a text of at most the size of a program from a file, or from standard input if the path is `-`. `what` names the text in errors.
pub(crate) fn read_text(what: &str, path: &Path) -> Result<String, RunnerError> {
    let mut bytes = Vec::new();
    // One byte above the maximum shows that the text is too large.
    let limit = MAX_PROGRAM.get() + 1;
    let is_stdin = path == Path::new("-");
    let read = match is_stdin {
        true => io::stdin().take(limit).read_to_end(&mut bytes),
        false => std::fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)),
    };
    let failed = |error: &dyn std::fmt::Display| {
        let shown = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
        RunnerError::new(ResultKind::InvalidRequest, format!("cannot read {what} from {shown}: {error}"))
    };
    read.map_err(|error| failed(&error))?;
    if bytes.len() as u64 > MAX_PROGRAM.get() {
        return Err(failed(&format!("it is larger than {MAX_PROGRAM}")));
    }
    String::from_utf8(bytes).map_err(|error| failed(&error.utf8_error()).with_fix("save it as UTF-8"))
}
