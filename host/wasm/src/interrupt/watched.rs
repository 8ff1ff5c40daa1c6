//! One watched guest: its conditions, and the time that it has used.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use codebox_core::LimitKind;

use super::{CpuClock, Interrupt, StopReason};
use crate::sys::{Divertible, cpu_time_of_thread};

/// A guest between the start and the end of its turn.
pub(super) struct WatchedGuest {
    conditions: Interrupt,
    deadline: Option<Instant>,
    time: Mutex<UsedTime>,
    stop: OnceLock<StopReason>,
    /// `None` if the guest's code checks for interruption itself.
    divertible: Option<Divertible>,
}

struct UsedTime {
    /// The clock's time at the start of the turn, or at the start of the current poll for a thread's clock.
    started_at: Duration,
    used: Duration,
}

impl WatchedGuest {
    pub(super) fn new(conditions: Interrupt, divertible: Option<Divertible>) -> Self {
        let deadline = conditions.wall.and_then(|wall| Instant::now().checked_add(wall));
        let time = Mutex::new(UsedTime { started_at: conditions.clock.now(), used: Duration::ZERO });
        Self { conditions, deadline, time, stop: OnceLock::new(), divertible }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Calls `poll`, which polls the guest, and counts its time.
    pub(super) fn measure<T>(&self, poll: impl FnOnce() -> T) -> T {
        if self.conditions.clock == CpuClock::Thread {
            self.time().started_at = self.conditions.clock.now();
        }
        let polled = match &self.divertible {
            Some(divertible) => {
                let _entered = divertible.enter();
                poll()
            }
            None => poll(),
        };
        let mut time = self.time();
        let now = self.conditions.clock.now();
        let elapsed = now.saturating_sub(time.started_at);
        match self.conditions.clock {
            CpuClock::Thread => {
                time.used += elapsed;
                time.started_at = now;
            }
            // The time includes the work of other threads between polls.
            #[cfg(unix)]
            CpuClock::Process => time.used = elapsed,
        }
        polled
    }

    /// Returns the processor time up to the end of the last poll, with that of the host for the job.
    pub(super) fn used(&self) -> Duration {
        self.time().used + self.conditions.host_cpu_time.total()
    }

    /// Returns the reason for which the guest was diverted from its code.
    pub(super) fn diverted(&self) -> Option<StopReason> {
        let diverted = self.divertible.as_ref().is_some_and(Divertible::is_diverted);
        self.stop.get().copied().filter(|_| diverted)
    }

    /// Returns the limit on processor time, or an earlier reason, if the guest has to stop after a poll.
    pub(super) fn due_after_poll(&self) -> Option<StopReason> {
        let is_over = self.conditions.cpu.is_some_and(|limit| self.used() >= limit);
        self.stop.get().copied().or(is_over.then_some(StopReason::Limit(LimitKind::Cpu)))
    }

    /// Diverts the guest if it has to stop and is computing. Returns true if it has to be tried again soon.
    pub(super) fn stop_if_due(&self) -> bool {
        let Some((divertible, thread)) = self.divertible.as_ref().and_then(|guest| Some((guest, guest.thread()?)))
        else {
            return false;
        };
        if self.stop.get().is_none() {
            let Some(reason) = self.due_during_poll(thread) else { return false };
            let _ = self.stop.set(reason);
        }
        divertible.divert();
        true
    }

    fn due_during_poll(&self, thread: i32) -> Option<StopReason> {
        let Interrupt { cpu, clock, cancel, abandoned, egress, .. } = &self.conditions;
        if cancel.is_cancelled() || abandoned.is_cancelled() {
            return Some(StopReason::Cancelled);
        }
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Some(StopReason::Limit(LimitKind::Wall));
        }
        if let Some(kind) = egress.as_ref().and_then(|egress| egress.reached_limit()) {
            return Some(StopReason::Limit(kind));
        }
        let limit = (*cpu)?;
        let used = {
            let time = self.time();
            // The times are those of the current poll, which may be on another thread than the one that was read.
            if self.divertible.as_ref().and_then(Divertible::thread) != Some(thread) {
                return None;
            }
            match clock {
                CpuClock::Thread => time.used + cpu_time_of_thread(thread)?.saturating_sub(time.started_at),
                #[cfg(unix)]
                CpuClock::Process => clock.now().saturating_sub(time.started_at),
            }
        };
        (used + self.conditions.host_cpu_time.total() >= limit).then_some(StopReason::Limit(LimitKind::Cpu))
    }

    fn time(&self) -> std::sync::MutexGuard<'_, UsedTime> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
