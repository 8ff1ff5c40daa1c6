//! The capabilities of an operating system that a program can need.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A capability of an operating system that a WebAssembly guest does not have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Capability {
    /// Threads.
    Threads,
    /// Processes.
    Processes,
    /// Sockets: the network, and servers for clients in the same guest.
    Sockets,
    /// A module that the language's WebAssembly runtime lacks, because it is native or depends on native code.
    Module(String),
}

impl Capability {
    /// Returns the word for a missing capability in reports, such as `threads` or `module:ssl`.
    #[must_use]
    pub fn report_name(&self) -> String {
        match self {
            Self::Threads => "threads".to_owned(),
            Self::Processes => "processes".to_owned(),
            Self::Sockets => "sockets".to_owned(),
            Self::Module(name) => format!("module:{name}"),
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Module(name) => write!(f, "the module {name}"),
            other => f.write_str(&other.report_name()),
        }
    }
}
