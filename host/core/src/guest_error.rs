use serde::{Deserialize, Serialize};

/// Exception or error that ended a guest.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GuestError {
    /// Type, such as `ZeroDivisionError`.
    pub name: String,
    /// Message, such as `division by zero`.
    pub value: String,
    /// Lines of the traceback.
    pub traceback: Vec<String>,
    /// Line of the user's program that raised the error.
    pub line: Option<u32>,
    /// Calls that led to the error, as far as the traceback names their places; the innermost is the last.
    pub frames: Vec<ErrorFrame>,
}

/// Call that led to an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorFrame {
    /// File as the traceback names it, such as `/work/a.py` or `<string>`.
    pub file: String,
    /// Line in the file, from 1.
    pub line: u32,
    /// Column in the line, from 1, if the traceback has it.
    pub column: Option<u32>,
    /// Function, if the traceback names it.
    pub function: Option<String>,
    /// Text of the line, if the traceback shows it.
    pub code: Option<String>,
}

impl GuestError {
    /// [Name](Self::name) of the error for a command that does not exist.
    pub const NOT_FOUND: &str = "CommandNotFound";
    /// [Name](Self::name) of the error for a command that the system cannot start.
    pub const NOT_STARTED: &str = "CommandNotStarted";

    /// Returns true if the error means that a command could not be started, so that no program ran.
    #[must_use]
    pub fn is_start_failure(&self) -> bool {
        [Self::NOT_FOUND, Self::NOT_STARTED].contains(&self.name.as_str())
    }
}
