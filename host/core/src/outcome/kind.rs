use std::fmt;

use super::exit;

macro_rules! result_kinds {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// One word for how a request ended, the same for every backend.
        ///
        /// Closed: a guest's failure and codebox's own are never the same kind.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ResultKind {
            $($(#[$doc])* $variant,)*
        }

        impl ResultKind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name in reports: `timeout_wall`.
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
    /// The guest ended by itself with status 0.
    Ok = "ok",
    /// The guest ended with another status, by a signal or by a trap.
    GuestError = "guest_error",
    /// The wall time limit ended it.
    TimeoutWall = "timeout_wall",
    /// The processor time or fuel limit ended it.
    TimeoutCpu = "timeout_cpu",
    /// The memory limit ended it.
    MemoryLimit = "memory_limit",
    /// The output limit ended it.
    OutputLimit = "output_limit",
    /// The limit on bytes written or files created ended it.
    DiskLimit = "disk_limit",
    /// The limit on processes ended it.
    ProcessLimit = "process_limit",
    /// The limit on open files ended it.
    FdLimit = "fd_limit",
    /// The limit on network traffic or connections ended it.
    NetLimit = "net_limit",
    /// The request asked for something that is not allowed.
    Denied = "denied",
    /// A path in the request is not one that may be used.
    PathRejected = "path_rejected",
    /// A package could not be installed.
    InstallFailed = "install_failed",
    /// The guest needs a container, and the request does not allow one.
    EscalationRefused = "escalation_refused",
    /// The engine or runtime that it takes is not there.
    EngineUnavailable = "engine_unavailable",
    /// The engine went away during the run.
    EngineLost = "engine_lost",
    /// An image or runtime is damaged or unusable.
    ImageError = "image_error",
    /// The caller cancelled.
    Cancelled = "cancelled",
    /// The host stopped before the guest did.
    Interrupted = "interrupted",
    /// There is no room now.
    Busy = "busy",
    /// The request makes no sense.
    InvalidRequest = "invalid_request",
    /// codebox itself, or the machine under it, failed.
    InternalError = "internal_error",
}

impl ResultKind {
    /// Whether the same request may well succeed later.
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
            | Self::InvalidRequest
            | Self::InternalError => false,
        }
    }

    /// The exit status when codebox ends with this kind instead of a report; the table is at [`exit`].
    #[must_use]
    pub const fn failure_status(self) -> u8 {
        match self {
            Self::Denied | Self::PathRejected | Self::EscalationRefused => exit::DENIED,
            Self::TimeoutWall | Self::TimeoutCpu => exit::TIMEOUT,
            Self::MemoryLimit => exit::MEMORY,
            Self::OutputLimit | Self::DiskLimit | Self::ProcessLimit | Self::FdLimit | Self::NetLimit => exit::LIMIT,
            Self::Cancelled => exit::CANCELLED,
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
