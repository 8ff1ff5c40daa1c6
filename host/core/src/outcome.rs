use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::LimitKind;

mod kind;

pub use kind::ResultKind;

/// Outcome of a guest's run, as far as there is evidence.
///
/// Every way in which a guest can end is a value of this type. An error in place of a report means that codebox cannot
/// determine what the guest did.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// Normal exit with this status.
    Exited(i32),
    /// Termination by this signal, without evidence of a limit that sent it.
    Signalled(i32),
    /// Trap: the engine stopped the guest because of an operation that no program may perform.
    Trapped(TrapKind),
    /// Termination by a limit; the report contains the output and files up to that point.
    LimitHit(LimitKind),
    /// Cancellation by the caller.
    Cancelled,
    /// Suspension of a cell until the call of a tool is approved or denied. [`SessionState`](crate::SessionState) has the call.
    Suspended,
}

/// Cause of a trap.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TrapKind {
    /// Stack overflow.
    StackOverflow,
    /// Execution of an `unreachable` instruction, which is how most runtimes abort.
    Unreachable,
    /// Access to memory or a table outside of its bounds.
    OutOfBounds,
    /// Need for code of the runtime that is not compiled.
    MissingCode,
    /// Call of a null function pointer, or of code of the runtime that is not loaded.
    NullCall,
    /// Any other cause, as described by the engine.
    Other(String),
}

impl fmt::Display for TrapKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StackOverflow => "stack overflow",
            Self::Unreachable => "unreachable code reached",
            Self::OutOfBounds => "access out of bounds",
            Self::MissingCode => "it needs code of the runtime that is not compiled",
            Self::NullCall => "call of a null function pointer, or of code that is not loaded",
            Self::Other(detail) => detail,
        })
    }
}

/// Exit statuses that codebox itself uses; a guest's own status passes through.
///
/// | status | meaning |
/// |---|---|
/// | the guest's, modulo 256 | the guest exited normally |
/// | 122 | a limit on output, disk, files, open files, processes or the network ended the guest |
/// | 123 | a cell of a session is suspended until the call of a tool is approved or denied |
/// | 124 | a time limit ended the guest: wall, cpu or fuel |
/// | 125 | codebox itself failed, or could not start the guest |
/// | 126 | denied: the request needs something that is not allowed |
/// | 130 | the caller cancelled the run |
/// | 134 | the guest trapped |
/// | 137 | the memory limit ended the guest |
/// | 128 + n | signal n ended the guest |
pub mod exit {
    /// Status after a limit on output, disk, files, open files, processes or the network ended the guest.
    pub const LIMIT: u8 = 122;
    /// Status after a cell was suspended.
    pub const SUSPENDED: u8 = 123;
    /// Status after a time limit ended the guest.
    pub const TIMEOUT: u8 = 124;
    /// Status after a failure of codebox itself.
    pub const FAILURE: u8 = 125;
    /// Status of a request for something that is not allowed.
    pub const DENIED: u8 = 126;
    /// Status after a cancellation by the caller.
    pub const CANCELLED: u8 = 130;
    /// Status after a trap of the guest.
    pub const TRAPPED: u8 = 134;
    /// Status after the memory limit ended the guest.
    pub const MEMORY: u8 = 137;
}

/// Returns the exit status of a process that ran a guest with this outcome; [`exit`] has the table.
#[must_use]
pub fn exit_status(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Exited(status) => low_byte(*status),
        Outcome::Signalled(signal) => low_byte(signal.saturating_add(128)),
        Outcome::Trapped(_) => exit::TRAPPED,
        Outcome::Cancelled => exit::CANCELLED,
        Outcome::Suspended => exit::SUSPENDED,
        Outcome::LimitHit(kind) => match kind {
            LimitKind::Wall | LimitKind::Cpu | LimitKind::Fuel => exit::TIMEOUT,
            LimitKind::Memory => exit::MEMORY,
            LimitKind::Output
            | LimitKind::Disk
            | LimitKind::Files
            | LimitKind::OpenFiles
            | LimitKind::Processes
            | LimitKind::NetBytes
            | LimitKind::NetConnections => exit::LIMIT,
        },
    }
}

/// Returns the part of an exit status that an operating system keeps.
const fn low_byte(status: i32) -> u8 {
    status.to_le_bytes()[0]
}

impl Outcome {
    /// Returns the result kind of this outcome.
    #[must_use]
    pub const fn result_kind(&self) -> ResultKind {
        match self {
            Self::Exited(_) if self.is_success() => ResultKind::Ok,
            Self::Exited(_) | Self::Signalled(_) | Self::Trapped(_) => ResultKind::GuestError,
            Self::Cancelled => ResultKind::Cancelled,
            Self::Suspended => ResultKind::Suspended,
            Self::LimitHit(kind) => match kind {
                LimitKind::Wall => ResultKind::TimeoutWall,
                LimitKind::Cpu | LimitKind::Fuel => ResultKind::TimeoutCpu,
                LimitKind::Memory => ResultKind::MemoryLimit,
                LimitKind::Output => ResultKind::OutputLimit,
                LimitKind::Disk | LimitKind::Files => ResultKind::DiskLimit,
                LimitKind::OpenFiles => ResultKind::FdLimit,
                LimitKind::Processes => ResultKind::ProcessLimit,
                LimitKind::NetBytes | LimitKind::NetConnections => ResultKind::NetLimit,
            },
        }
    }

    /// Returns true if the guest exited with status 0, as the operating system would see the status.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Exited(status) if low_byte(*status) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_statuses_match_table() {
        for (outcome, status) in [
            (Outcome::Exited(0), 0),
            (Outcome::Exited(3), 3),
            (Outcome::Exited(-1), 255),
            (Outcome::Exited(256), 0),
            (Outcome::Exited(i32::MIN), 0),
            (Outcome::Signalled(9), 137),
            (Outcome::Signalled(11), 139),
            (Outcome::Trapped(TrapKind::Unreachable), 134),
            (Outcome::Cancelled, 130),
            (Outcome::Suspended, 123),
            (Outcome::LimitHit(LimitKind::Wall), 124),
            (Outcome::LimitHit(LimitKind::Cpu), 124),
            (Outcome::LimitHit(LimitKind::Fuel), 124),
            (Outcome::LimitHit(LimitKind::Memory), 137),
            (Outcome::LimitHit(LimitKind::Output), 122),
            (Outcome::LimitHit(LimitKind::Disk), 122),
            (Outcome::LimitHit(LimitKind::Files), 122),
            (Outcome::LimitHit(LimitKind::OpenFiles), 122),
            (Outcome::LimitHit(LimitKind::Processes), 122),
            (Outcome::LimitHit(LimitKind::NetBytes), 122),
            (Outcome::LimitHit(LimitKind::NetConnections), 122),
        ] {
            assert_eq!(exit_status(&outcome), status, "{outcome:?}");
        }
    }

    #[test]
    fn limit_status_matches_result_kind() {
        for kind in LimitKind::ALL {
            let outcome = Outcome::LimitHit(kind);
            assert_eq!(outcome.result_kind().failure_status(), exit_status(&outcome), "{kind}");
        }
    }

    #[test]
    fn only_exit_status_zero_is_ok() {
        assert_eq!(Outcome::Exited(0).result_kind(), ResultKind::Ok);
        // The parent of a native process would also see status 0.
        assert_eq!(Outcome::Exited(256).result_kind(), ResultKind::Ok);
        assert_eq!(Outcome::Exited(-1).result_kind(), ResultKind::GuestError);
        assert!(ResultKind::Busy.retryable() && !ResultKind::GuestError.retryable());
    }
}
