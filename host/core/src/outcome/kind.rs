use std::fmt;

use serde::{Deserialize, Serialize};

use super::exit;

macro_rules! result_kinds {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Result kind of a request, the same for every backend.
        ///
        /// The set is closed, and a failure of the guest never has the same kind as a failure of codebox.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum ResultKind {
            $($(#[$doc])* $variant,)*
        }

        impl ResultKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the name used in reports, such as `timeout_wall`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

result_kinds! {
    /// Exit of the guest with status 0.
    Ok = "ok",
    /// End of the guest with another status, by a signal or by a trap.
    GuestError = "guest_error",
    /// Termination by the wall time limit.
    TimeoutWall = "timeout_wall",
    /// Termination by the processor time or fuel limit.
    TimeoutCpu = "timeout_cpu",
    /// Termination by the memory limit.
    MemoryLimit = "memory_limit",
    /// Termination by the output limit.
    OutputLimit = "output_limit",
    /// Termination by the limit on bytes written or files created.
    DiskLimit = "disk_limit",
    /// Termination by the limit on processes.
    ProcessLimit = "process_limit",
    /// Termination by the limit on open files.
    FdLimit = "fd_limit",
    /// Termination by the limit on network traffic or connections.
    NetLimit = "net_limit",
    /// A request for something that is not allowed.
    Denied = "denied",
    /// A path in the request that may not be used.
    PathRejected = "path_rejected",
    /// A package that could not be installed.
    InstallFailed = "install_failed",
    /// A guest that needs a container, in a request that does not allow one.
    EscalationRefused = "escalation_refused",
    /// A required engine or runtime that is not available.
    EngineUnavailable = "engine_unavailable",
    /// An engine that disappeared during the run.
    EngineLost = "engine_lost",
    /// An image or runtime that is damaged or unusable.
    ImageError = "image_error",
    /// Cancellation by the caller.
    Cancelled = "cancelled",
    /// Suspension of a cell until the call of a tool is approved or denied.
    Suspended = "suspended",
    /// A host process that stopped before the guest did.
    Interrupted = "interrupted",
    /// A temporary lack of capacity.
    Busy = "busy",
    /// An invalid request.
    InvalidRequest = "invalid_request",
    /// A failure of codebox itself or of the machine.
    InternalError = "internal_error",
}

impl ResultKind {
    /// Returns true if the same request may succeed later.
    #[must_use]
    pub const fn retryable(self) -> bool {
        match self {
            Self::EngineUnavailable | Self::EngineLost | Self::Interrupted | Self::Busy => true,
            Self::Ok
            | Self::GuestError
            | Self::TimeoutWall
            | Self::TimeoutCpu
            | Self::MemoryLimit
            | Self::OutputLimit
            | Self::DiskLimit
            | Self::ProcessLimit
            | Self::FdLimit
            | Self::NetLimit
            | Self::Denied
            | Self::PathRejected
            | Self::InstallFailed
            | Self::EscalationRefused
            | Self::ImageError
            | Self::Cancelled
            | Self::Suspended
            | Self::InvalidRequest
            | Self::InternalError => false,
        }
    }

    /// Returns the exit status of codebox if it ends with this kind in place of a report; [`exit`] has the table.
    #[must_use]
    pub const fn failure_status(self) -> u8 {
        match self {
            Self::Denied | Self::PathRejected | Self::EscalationRefused => exit::DENIED,
            Self::TimeoutWall | Self::TimeoutCpu => exit::TIMEOUT,
            Self::MemoryLimit => exit::MEMORY,
            Self::OutputLimit | Self::DiskLimit | Self::ProcessLimit | Self::FdLimit | Self::NetLimit => exit::LIMIT,
            Self::Cancelled => exit::CANCELLED,
            Self::Suspended => exit::SUSPENDED,
            Self::Ok
            | Self::GuestError
            | Self::InstallFailed
            | Self::EngineUnavailable
            | Self::EngineLost
            | Self::ImageError
            | Self::Interrupted
            | Self::Busy
            | Self::InvalidRequest
            | Self::InternalError => exit::FAILURE,
        }
    }
}

impl fmt::Display for ResultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_snake_case() {
        let mut names: Vec<&str> = ResultKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert!(names.iter().all(|n| n.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ResultKind::ALL.len());
    }
}
