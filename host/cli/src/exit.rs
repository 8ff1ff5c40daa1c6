//! Exit statuses of the process. Those of guests are in [`codebox_core::exit`].

use codebox_core::exit;

/// Status after standard output was closed by its reader: the one that a shell reports for a process killed by
/// `SIGPIPE`.
pub(crate) const PIPE: u8 = 141;

/// All statuses and their meanings, in the order of the reference.
pub(crate) const TABLE: &[(Status, &str)] = &[
    (Status::Guest("exit status of the program"), "the program exited; 1 is an uncaught exception"),
    (Status::Code(exit::LIMIT), "a limit on output, disk, files, open files, processes or the network ended the guest"),
    (Status::Code(exit::SUSPENDED), "a cell of a session is suspended until the call of a tool is approved or denied"),
    (Status::Code(exit::TIMEOUT), "a wall time or CPU time limit ended the guest"),
    (
        Status::Code(exit::FAILURE),
        "codebox itself failed: bad usage, a missing file, a damaged runtime; never a failure of the guest",
    ),
    (Status::Code(exit::DENIED), "the request is not allowed"),
    (Status::Code(exit::CANCELLED), "the run was cancelled"),
    (Status::Code(exit::TRAPPED), "the guest trapped"),
    (Status::Code(exit::MEMORY), "the memory limit ended the guest"),
    (Status::Code(PIPE), "standard output was closed by its reader"),
    (Status::Guest("128 + n"), "signal n ended the guest"),
];

/// First column of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Statuses that the guest chooses.
    Guest(&'static str),
    /// A status that codebox returns.
    Code(u8),
}

#[cfg(test)]
mod tests {
    use codebox_core::{LimitKind, Outcome, ResultKind, TrapKind, exit_status};

    use super::*;

    fn documented(code: u8) -> bool {
        TABLE.iter().any(|(status, _)| *status == Status::Code(code))
    }

    #[test]
    fn every_status_that_codebox_gives_is_in_the_table() {
        for kind in ResultKind::ALL {
            assert!(documented(kind.failure_status()), "{kind}");
        }
        let limits = LimitKind::ALL.map(Outcome::LimitHit);
        let others = [Outcome::Cancelled, Outcome::Suspended, Outcome::Trapped(TrapKind::StackOverflow)];
        for outcome in limits.into_iter().chain(others) {
            assert!(documented(exit_status(&outcome)), "{outcome:?}");
        }
    }

    #[test]
    fn exit_statuses_match_documentation() {
        let codes = TABLE.iter().filter_map(|(status, _)| match status {
            Status::Code(code) => Some(*code),
            Status::Guest(_) => None,
        });
        let promised = [122, 123, 124, 125, 126, 130, 134, 137, 141];
        assert!(codes.eq(promised));
    }
}
