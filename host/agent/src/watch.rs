//! Enforcement of a job's time limits.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use codebox_agent::Stop;

use crate::cgroup;

/// Interval between checks of the processor time.
const CPU_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// State shared between a job and the thread that watches it.
#[derive(Default)]
pub(crate) struct Watch {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ended: bool,
    stop: Option<Stop>,
}

impl Watch {
    /// Waits for the end of the job, and calls `kill` when the job reaches a time limit.
    pub(crate) fn watch(&self, wall: Option<Duration>, cpu: Option<Duration>, kill: impl Fn()) {
        let began = Instant::now();
        let cpu_before = cgroup::cpu_us();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.ended {
            let remaining = wall.map(|wall| wall.saturating_sub(began.elapsed()));
            let used = || Some(Duration::from_micros(cgroup::cpu_us()?.saturating_sub(cpu_before?)));
            let stop = if remaining == Some(Duration::ZERO) {
                Some(Stop::Wall)
            } else if cpu.is_some_and(|cpu| used().is_some_and(|used| used >= cpu)) {
                Some(Stop::Cpu)
            } else {
                None
            };
            if stop.is_some() {
                state.stop = stop;
                kill();
                return;
            }
            let pause = match (remaining, cpu) {
                (Some(remaining), None) => remaining,
                (Some(remaining), Some(_)) => remaining.min(CPU_POLL_INTERVAL),
                (None, Some(_)) => CPU_POLL_INTERVAL,
                (None, None) => Duration::from_secs(3600),
            };
            state = self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Marks the job as ended. Returns the limit for which this watch has killed it, if any.
    pub(crate) fn ended(&self) -> Option<Stop> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ended = true;
        self.changed.notify_all();
        state.stop
    }
}
