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
