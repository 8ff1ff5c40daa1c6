use serde::{Deserialize, Serialize};

use crate::limits::LimitKind;
use crate::outcome::{self, ResultKind, TrapKind};

/// Defines the wire name of a closed set of values, variant by variant.
///
/// The conversion has no catch-all arm, so that a new internal variant cannot reach the wire before it is named here.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident of $source:ty { $($(#[$doc:meta])* $variant:ident,)* }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
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
    /// Result kind of a request.
    #[serde(rename_all = "snake_case")]
    ResultName of ResultKind {
        /// Exit of the guest with status 0.
        Ok,
        /// End of the guest with another status, by a signal or by a trap.
        GuestError,
        /// Termination by the wall time limit.
        TimeoutWall,
        /// Termination by the processor time or fuel limit.
        TimeoutCpu,
        /// Termination by the memory limit.
        MemoryLimit,
        /// Termination by the output limit.
        OutputLimit,
        /// Termination by the limit on bytes written or files created.
        DiskLimit,
        /// Termination by the limit on processes.
        ProcessLimit,
        /// Termination by the limit on open files.
        FdLimit,
        /// Termination by the limit on network traffic or connections.
        NetLimit,
        /// A request for something that is not allowed.
        Denied,
        /// A path in the request that may not be used.
        PathRejected,
        /// A package that could not be installed.
        InstallFailed,
        /// A guest that needs a container, in a request that does not allow one.
        EscalationRefused,
        /// A required engine or runtime that is not available.
        EngineUnavailable,
        /// An engine that disappeared during the run.
        EngineLost,
        /// An image or runtime that is damaged or unusable.
        ImageError,
        /// Cancellation by the caller.
        Cancelled,
        /// Suspension of a cell until the call of a tool is approved or denied.
        Suspended,
        /// A host process that stopped before the guest did.
        Interrupted,
        /// A temporary lack of capacity.
        Busy,
        /// An invalid request.
        InvalidRequest,
        /// A failure of codebox itself or of the machine.
        InternalError,
    }
}

words! {
    /// Kind of a limit.
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

/// Outcome of the guest's run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Outcome {
    /// Normal exit.
    Exited {
        /// Exit status of the guest.
        status: i32,
    },
    /// Termination by a signal.
    Signalled {
        /// Number of the signal.
        signal: i32,
    },
    /// Trap: the engine stopped the guest because of an operation that no program may perform.
    Trapped {
        /// Cause of the trap.
        trap: TrapName,
        /// Description of the cause.
        detail: String,
    },
    /// Termination by a limit.
    LimitHit {
        /// Limit that was reached.
        limit: LimitName,
    },
    /// Cancellation by the caller.
    Cancelled,
    /// Suspension of a cell until the call of a tool is approved or denied.
    Suspended,
}

/// Cause of a trap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TrapName {
    /// Stack overflow.
    StackOverflow,
    /// Execution of an `unreachable` instruction, such as an abort.
    Unreachable,
    /// Access to memory or a table outside of its bounds.
    OutOfBounds,
    /// Need for code of the runtime that is not compiled.
    MissingCode,
    /// Call of a null function pointer, or of code of the runtime that is not loaded.
    NullCall,
    /// Any other cause.
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
                    TrapKind::MissingCode => TrapName::MissingCode,
                    TrapKind::NullCall => TrapName::NullCall,
                    TrapKind::Other(_) => TrapName::Other,
                };
                Self::Trapped { trap, detail: kind.to_string() }
            }
            outcome::Outcome::LimitHit(limit) => Self::LimitHit { limit: (*limit).into() },
            outcome::Outcome::Cancelled => Self::Cancelled,
            outcome::Outcome::Suspended => Self::Suspended,
        }
    }
}
