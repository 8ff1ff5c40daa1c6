//! Standard output of a command: text, or one JSON document.

use std::io::{self, IsTerminal, Write};

use codebox_core::{ResultKind, RunnerError, exit};
use serde::Serialize;

use crate::exit::PIPE;
use crate::render::escape_json;

/// Prints text as it is and returns the exit status. A closed reader is not a failure of codebox.
pub(crate) fn print(text: &str) -> Result<u8, RunnerError> {
    let mut stdout = anstream::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    match written {
        Ok(()) => Ok(0),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(PIPE),
        Err(error) => {
            let line = format!("cannot write to standard output: {error}");
            Err(RunnerError::new(ResultKind::InternalError, line))
        }
    }
}

/// Prints one JSON document on a line of its own, or indented if standard output is a terminal.
pub(crate) fn print_json(document: &impl Serialize) -> Result<u8, RunnerError> {
    let json = if io::stdout().is_terminal() {
        serde_json::to_string_pretty(document)
    } else {
        serde_json::to_string(document)
    };
    let json = json.map_err(|error| {
        let line = format!("cannot write the report as JSON: {error}");
        RunnerError::new(ResultKind::InternalError, line)
    })?;
    print(&format!("{}\n", escape_json(&json)))
}

/// Prints a failure as JSON and returns its exit status.
pub(crate) fn print_failure(failure: &RunnerError) -> u8 {
    match print_json(&failure.to_wire()) {
        Ok(_) => failure.exit_status(),
        Err(_) => exit::FAILURE,
    }
}
