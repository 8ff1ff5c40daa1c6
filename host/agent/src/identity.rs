//! Agents in containers that codebox has not made.

use serde::{Deserialize, Serialize};

/// Beginning of the name of the directory that has the agent and the files of its jobs.
pub const DIR_PREFIX: &str = ".codebox-";

/// Name of the agent in its directory.
pub const PROGRAM: &str = "agent";

/// Answer of the command `identify`: the user and the environment that the engine gives to programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// User number.
    pub uid: u32,
    /// Group number.
    pub gid: u32,
    /// Numbers of the supplementary groups.
    pub groups: Vec<u32>,
    /// Variables whose names and values are UTF-8.
    pub env: Vec<(String, String)>,
}
