//! Enforcement of a job's time limits.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use codebox_agent::Stop;

use crate::control_group;
use crate::job::kill_all;

/// Interval between checks of the processor time.
const TICK: Duration = Duration::from_millis(10);

/// State shared between a job and the thread that watches it.
#[derive(Default)]
pub(crate) struct Watch {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    over: bool,
    stop: Option<Stop>,
}

impl Watch {
    /// Waits for the end of the job, and kills the job when it reaches a time limit.
    pub(crate) fn watch(&self, wall: Option<Duration>, cpu: Option<Duration>) {
        let began = Instant::now();
        let cpu_before = control_group::cpu_us();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.over {
            let left = wall.map(|wall| wall.saturating_sub(began.elapsed()));
            let used = || Some(Duration::from_micros(control_group::cpu_us()?.saturating_sub(cpu_before?)));
            let stop = if left == Some(Duration::ZERO) {
                Some(Stop::Wall)
            } else if cpu.is_some_and(|cpu| used().is_some_and(|used| used >= cpu)) {
                Some(Stop::Cpu)
            } else {
                None
            };
            if stop.is_some() {
                state.stop = stop;
                kill_all();
                return;
            }
            let pause = match (left, cpu) {
                (Some(left), None) => left,
                (Some(left), Some(_)) => left.min(TICK),
                (None, Some(_)) => TICK,
                (None, None) => Duration::from_secs(3600),
            };
            state = self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Marks the job as ended. Returns the limit for which this watch has killed it, if any.
    pub(crate) fn over(&self) -> Option<Stop> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.over = true;
        self.changed.notify_all();
        state.stop
    }
}
