use std::fmt;

use serde::{Deserialize, Serialize};

/// Kind of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LimitKind {
    /// Time from start to end.
    Wall,
    /// Processor time.
    Cpu,
    /// Memory.
    Memory,
    /// Output per stream.
    Output,
    /// Bytes written to files.
    Disk,
    /// Files and directories created.
    Files,
    /// Files open at one time.
    OpenFiles,
    /// Processes and threads at one time.
    Processes,
    /// Counted instructions.
    Fuel,
    /// Bytes to and from the network.
    NetBytes,
    /// Network connections.
    NetConnections,
}

impl LimitKind {
    /// All limits.
    pub const ALL: [Self; 11] = [
        Self::Wall,
        Self::Cpu,
        Self::Memory,
        Self::Output,
        Self::Disk,
        Self::Files,
        Self::OpenFiles,
        Self::Processes,
        Self::Fuel,
        Self::NetBytes,
        Self::NetConnections,
    ];

    /// Returns the name used in reports and schemas.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Wall => "wall",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Output => "output",
            Self::Disk => "disk",
            Self::Files => "files",
            Self::OpenFiles => "open_files",
            Self::Processes => "processes",
            Self::Fuel => "fuel",
            Self::NetBytes => "net_bytes",
            Self::NetConnections => "net_connections",
        }
    }
}

impl fmt::Display for LimitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
