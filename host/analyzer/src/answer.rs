//! Execution of a task with one text.

use codebox_analysis::protocol::Task;
use codebox_analysis::{StripFault, encode_fault, encode_program};
use codebox_typescript::{Location, StripError, StrippedProgram, strip};

use crate::{can_be_python, python_needs, script_needs};

/// Executes a task with a text and returns the answer in the form of the protocol.
///
/// The function may overflow the stack, panic, or take any amount of memory and time, so the calling process must be
/// one that may crash.
#[must_use]
pub fn answer(task: &Task, text: &str) -> Vec<u8> {
    // Values of these types can always be encoded in JSON.
    match task {
        Task::Strip { file } => strip_types(file, text),
        Task::PythonNeeds => serde_json::to_vec(&python_needs(text)).unwrap_or_default(),
        Task::ScriptNeeds { file } => serde_json::to_vec(&script_needs(file, text)).unwrap_or_default(),
        Task::IsPython => serde_json::to_vec(&can_be_python(text)).unwrap_or_default(),
    }
}

fn strip_types(file: &str, text: &str) -> Vec<u8> {
    match strip(file, text) {
        Ok(StrippedProgram { code, mappings }) => encode_program(&code, mappings),
        Err(error) => {
            let location = match &error {
                StripError::Syntax { location, .. } => Some(*location),
                _ => None,
            };
            let (line, column) = location.map(|Location { line, column }| (line, column)).unzip();
            encode_fault(StripFault { message: error.to_string(), line, column })
        }
    }
}
