//! Outcome of a job, from evidence: the reason for a stop, the counters of the kernel, and the status of the first
//! process.

use codebox_agent::{JobExit, Status, Stop};
use codebox_core::{LimitKind, Outcome};

/// Reason for which the host stopped a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostStop {
    /// Cancellation by the caller.
    Cancelled,
    /// A limit that the host enforces.
    Limit(LimitKind),
}

/// Returns the outcome of a job whose end the agent has reported.
pub(crate) fn outcome(ended: &JobExit, stop: Option<HostStop>, full: Option<LimitKind>) -> Outcome {
    match (stop, ended.stop) {
        (Some(HostStop::Cancelled), _) => return Outcome::Cancelled,
        (Some(HostStop::Limit(kind)), _) => return Outcome::LimitHit(kind),
        (None, Some(Stop::Wall)) => return Outcome::LimitHit(LimitKind::Wall),
        (None, Some(Stop::Cpu)) => return Outcome::LimitHit(LimitKind::Cpu),
        (None, None) => {}
    }
    let evidence = ended.evidence;
    let failed = ended.status != Status::Exited(0);
    // A job that succeeds although a process of it was killed for lack of memory counts as successful.
    if failed && evidence.oom_kills.is_some_and(|count| count > 0) {
        return Outcome::LimitHit(LimitKind::Memory);
    }
    if failed && evidence.forks_refused.is_some_and(|count| count > 0) {
        return Outcome::LimitHit(LimitKind::Processes);
    }
    if let (true, Some(kind)) = (failed, full) {
        return Outcome::LimitHit(kind);
    }
    match ended.status {
        Status::Exited(code) => Outcome::Exited(code),
        Status::Signalled(signal) => Outcome::Signalled(signal),
        Status::NotStarted(number) => Outcome::Exited(not_started(number)),
    }
}

/// Returns the status that a shell reports for a command that does not exist (127) or cannot be executed (126).
fn not_started(number: i32) -> i32 {
    const ENOENT: i32 = 2;
    if number == ENOENT { 127 } else { 126 }
}

#[cfg(test)]
mod tests {
    use codebox_agent::CgroupStats;

    use super::*;

    fn ended(status: Status, stop: Option<Stop>, evidence: CgroupStats) -> JobExit {
        JobExit { status, stop, wall_us: 1, evidence }
    }

    #[test]
    fn derives_outcome_from_evidence() {
        let none = CgroupStats { oom_kills: Some(0), forks_refused: Some(0), ..CgroupStats::default() };
        let oom = CgroupStats { oom_kills: Some(1), ..none };
        let forks = CgroupStats { forks_refused: Some(7), ..none };
        use LimitKind::{Disk, Memory, Processes, Wall};
        for (status, stop, evidence, full, expected) in [
            (Status::Exited(0), None, none, None, Outcome::Exited(0)),
            (Status::Exited(137), None, none, None, Outcome::Exited(137)),
            (Status::Signalled(9), None, none, None, Outcome::Signalled(9)),
            (Status::Signalled(11), None, none, None, Outcome::Signalled(11)),
            (Status::Signalled(9), None, oom, None, Outcome::LimitHit(Memory)),
            (Status::Exited(1), None, oom, None, Outcome::LimitHit(Memory)),
            (Status::Exited(0), None, oom, None, Outcome::Exited(0)),
            (Status::Exited(1), None, forks, None, Outcome::LimitHit(Processes)),
            (Status::Signalled(9), Some(Stop::Wall), oom, None, Outcome::LimitHit(Wall)),
            (Status::Exited(1), None, none, Some(Disk), Outcome::LimitHit(Disk)),
            (Status::Exited(0), None, none, Some(Disk), Outcome::Exited(0)),
            (Status::NotStarted(2), None, none, None, Outcome::Exited(127)),
            (Status::NotStarted(13), None, none, None, Outcome::Exited(126)),
        ] {
            assert_eq!(outcome(&ended(status, stop, evidence), None, full), expected, "{status:?} {evidence:?}");
        }
        let killed = ended(Status::Signalled(9), None, none);
        assert_eq!(outcome(&killed, Some(HostStop::Cancelled), None), Outcome::Cancelled);
        assert_eq!(outcome(&killed, Some(HostStop::Limit(Disk)), None), Outcome::LimitHit(Disk));
    }
}
