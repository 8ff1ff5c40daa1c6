//! Texts that a command reads from a file or from standard input.

use std::io::{self, Read as _};
use std::path::Path;

use codebox_core::{ResultKind, RunnerError};
use codebox_service::MAX_PROGRAM;

/// Reads a text from a file, or from standard input if the path is `-`. A text that is too large for a program has one byte more than
/// that. `what` names the text in errors.
pub(crate) fn read_text(what: &str, path: &Path) -> Result<String, RunnerError> {
    let mut text = String::new();
    // One byte above the maximum shows that the text is too large.
    let limit = MAX_PROGRAM.get() + 1;
    let is_stdin = path == Path::new("-");
    let read = match is_stdin {
        true => io::stdin().take(limit).read_to_string(&mut text),
        false => std::fs::File::open(path).and_then(|file| file.take(limit).read_to_string(&mut text)),
    };
    match read {
        Ok(_) => Ok(text),
        Err(error) => {
            let shown = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
            Err(RunnerError::new(ResultKind::InvalidRequest, format!("cannot read {what} from {shown}: {error}")))
        }
    }
}
