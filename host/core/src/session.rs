//! Sessions as front ends list them.

use serde::{Deserialize, Serialize};

use crate::tools::SuspendedCall;

/// Name of the file of pages in a checkpoint that was written with it.
pub const PAGES_FILE: &str = "pages.bin";

/// Returns the name of a file of pages that a checkpoint shares with earlier ones. The oldest is number 0.
#[must_use]
pub fn earlier_pages_file(number: usize) -> String {
    format!("pages.{number}.bin")
}

/// Container of a session, beyond what its job says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionContainer {
    /// Image; `None` takes the one of the language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Engine; `None` accepts every engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
}

/// Facts about a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// Id of the session.
    pub id: String,
    /// Language of the cells.
    pub language: String,
    /// State of the interpreter.
    pub state: InterpreterState,
    /// Time at which the session was created, in seconds since 1970.
    pub created: u64,
    /// Time of the last use, in seconds since 1970.
    pub used: u64,
    /// Number of cells that have run, since the process that keeps the sessions was started.
    pub cells: u64,
    /// Names of the checkpoints, the latest last.
    pub checkpoints: Vec<String>,
    /// Call that waits for an approval, of a session that is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<SuspendedCall>,
}

/// State of a session's interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterpreterState {
    /// A cell runs, or the session is being saved or restored.
    Busy,
    /// It is in memory.
    Live,
    /// It is saved on disk.
    Parked,
    /// It has not started yet.
    New,
    /// It has ended, and its state since the last checkpoint is lost.
    Lost,
    /// A cell waits for the approval of a call.
    Suspended,
}

impl InterpreterState {
    /// Returns the name of the state.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Live => "live",
            Self::Parked => "parked",
            Self::New => "new",
            Self::Lost => "lost",
            Self::Suspended => "suspended",
        }
    }
}

/// Maximum length of the name of a checkpoint.
const MAX_NAME: usize = 64;

/// Returns true if a text can be the name of a checkpoint: letters, digits, `.`, `_` and `-`, not at first a `.`, at most 64.
#[must_use]
pub fn is_checkpoint_name(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !text.is_empty() && text.len() <= MAX_NAME && !text.starts_with(['.', '-']) && text.chars().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for name in ["a", "before-2", "v1.0_x", &"x".repeat(64)] {
            assert!(is_checkpoint_name(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", "a b", "-x", "é", "a\n", &"x".repeat(65)] {
            assert!(!is_checkpoint_name(name), "{name}");
        }
    }
}
