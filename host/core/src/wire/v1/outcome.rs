use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::LimitKind;
use crate::outcome::{self, ResultKind, TrapKind};

/// Defines the wire name of a closed set of values, variant by variant.
///
/// Without a catch-all, so that a new variant inside cannot reach the wire before it is named here.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident of $source:ty { $($(#[$doc:meta])* $variant:ident,)* }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        $(#[$meta])*
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl From<$source> for $name {
            fn from(value: $source) -> Self {
                match value {
                    $(<$source>::$variant => Self::$variant,)*
                }
            }
        }
    };
}
pub(super) use words;

words! {
    /// One word for how a request ended.
    #[serde(rename_all = "snake_case")]
    ResultName of ResultKind {
        /// Status 0.
        Ok,
        /// Another status, a signal or a trap.
        GuestError,
        /// The wall time limit.
        TimeoutWall,
        /// The processor time or fuel limit.
        TimeoutCpu,
        /// The memory limit.
        MemoryLimit,
        /// The output limit.
        OutputLimit,
        /// The limit on bytes written or files created.
        DiskLimit,
        /// The limit on processes.
        ProcessLimit,
        /// The limit on open files.
        FdLimit,
        /// The limit on network traffic or connections.
        NetLimit,
        /// Not allowed.
        Denied,
        /// A path that may not be used.
        PathRejected,
        /// A package could not be installed.
        InstallFailed,
        /// It needs a container, and none is allowed.
        EscalationRefused,
        /// The engine or runtime is not there.
        EngineUnavailable,
        /// The engine went away.
        EngineLost,
        /// An image or runtime is damaged.
        ImageError,
        /// The caller cancelled.
        Cancelled,
        /// The host stopped first.
        Interrupted,
        /// There is no room now.
        Busy,
        /// The request makes no sense.
        InvalidRequest,
        /// codebox itself, or the machine under it, failed.
        InternalError,
    }
}

words! {
    /// One of the limits.
    #[serde(rename_all = "snake_case")]
    LimitName of LimitKind {
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
}

/// How the guest's run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Outcome {
    /// It ended by itself.
    Exited {
        /// Its status.
        status: i32,
    },
    /// A signal ended it.
    Signalled {
        /// The signal.
        signal: i32,
    },
    /// The engine stopped it for doing what no program may.
    Trapped {
        /// What it did.
        trap: TrapName,
        /// The same in words.
        detail: String,
    },
    /// A limit ended it.
    LimitHit {
        /// The limit.
        limit: LimitName,
    },
    /// The caller ended it.
    Cancelled,
}

/// What a trapped guest did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrapName {
    /// It ran out of stack.
    StackOverflow,
    /// It aborted.
    Unreachable,
    /// It accessed memory or a table outside of its bounds.
    OutOfBounds,
    /// Something else.
    Other,
}

impl From<&outcome::Outcome> for Outcome {
    fn from(outcome: &outcome::Outcome) -> Self {
        match outcome {
            outcome::Outcome::Exited(status) => Self::Exited { status: *status },
            outcome::Outcome::Signalled(signal) => Self::Signalled { signal: *signal },
            outcome::Outcome::Trapped(kind) => {
                let trap = match kind {
                    TrapKind::StackOverflow => TrapName::StackOverflow,
                    TrapKind::Unreachable => TrapName::Unreachable,
                    TrapKind::OutOfBounds => TrapName::OutOfBounds,
                    TrapKind::Other(_) => TrapName::Other,
                };
                Self::Trapped { trap, detail: kind.to_string() }
            }
            outcome::Outcome::LimitHit(limit) => Self::LimitHit { limit: (*limit).into() },
            outcome::Outcome::Cancelled => Self::Cancelled,
        }
    }
}
