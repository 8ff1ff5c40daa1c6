//! Classifies the end of a guest by evidence: the engine's error, the limits' counters and the prelude's report.

use codebox_core::{LimitKind, Outcome, TrapKind};
use wasmtime::Trap;
use wasmtime_wasi::I32Exit;

use crate::code::NotCompiled;
use crate::guest::{Channel, Flood, MemoryLimiter, Quota};
use crate::interrupt::StopReason;

/// The outcome of a guest's call, and the permission to use its region again.
pub(crate) struct CallOutcome {
    pub outcome: Outcome,
    /// True if the guest returned by itself at the end of its turn.
    pub reusable: bool,
}

/// The host's counters and the guest's messages.
#[derive(Clone, Copy)]
pub(crate) struct Evidence<'a> {
    pub channel: &'a Channel,
    pub limiter: &'a MemoryLimiter,
    pub quota: &'a Quota,
    /// True if all parts of the guest's code are loaded.
    pub has_all_code: bool,
}

/// Classifies the end of a call.
pub(crate) fn classify(end: Result<wasmtime::Result<i32>, StopReason>, guest: Evidence<'_>) -> CallOutcome {
    match end {
        Err(StopReason::Cancelled) => classify_stop(Outcome::Cancelled),
        Err(StopReason::Limit(kind)) => classify_stop(Outcome::LimitHit(kind)),
        Ok(Ok(status)) => CallOutcome { outcome: classify_exit(status, guest), reusable: true },
        Ok(Err(error)) => classify_stop(classify_error(&error, guest)),
    }
}

fn classify_stop(outcome: Outcome) -> CallOutcome {
    CallOutcome { outcome, reusable: false }
}

/// Classifies a program that ended by itself. If a limit made the program fail, the outcome is the limit.
fn classify_exit(status: i32, guest: Evidence<'_>) -> Outcome {
    if status != 0 {
        let error = guest.channel.error.as_ref().map(|error| error.name.as_str());
        let denied = guest.limiter.denials() > 0
            && matches!(error, None | Some("MemoryError" | "_ArrayMemoryError" | "InternalError"));
        // A component knows its limit, and may fail with the error of its language before it requests more memory.
        if denied || (guest.limiter.is_known_to_guest() && error == Some("MemoryError")) {
            return Outcome::LimitHit(LimitKind::Memory);
        }
        // Without a report from the prelude, the limit is the most likely cause: it prevented even the report.
        if let (Some(kind), None | Some("OSError" | "Error")) = (guest.quota.denied().first(), error) {
            return Outcome::LimitHit(*kind);
        }
    }
    Outcome::Exited(status)
}

fn classify_error(error: &wasmtime::Error, guest: Evidence<'_>) -> Outcome {
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return classify_exit(exit.0, guest);
    }
    if error.is::<Flood>() {
        return Outcome::LimitHit(LimitKind::Output);
    }
    if error.is::<NotCompiled>() {
        return Outcome::Trapped(TrapKind::MissingCode);
    }
    if guest.limiter.denials() > 0 {
        // An interpreter that runs out of memory where it cannot raise an exception aborts, which traps.
        return Outcome::LimitHit(LimitKind::Memory);
    }
    Outcome::Trapped(match error.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow) => TrapKind::StackOverflow,
        Some(Trap::UnreachableCodeReached) => TrapKind::Unreachable,
        Some(Trap::MemoryOutOfBounds | Trap::TableOutOfBounds) => TrapKind::OutOfBounds,
        Some(Trap::IndirectCallToNull) if !guest.has_all_code => TrapKind::NullCall,
        Some(trap) => TrapKind::Other(trap.to_string()),
        None => TrapKind::Other(error.root_cause().to_string()),
    })
}
