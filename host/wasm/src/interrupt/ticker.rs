//! The thread that interrupts computing guests.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::watched::WatchedGuest;

/// Interval at which the conditions of a computing guest are checked.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Interval at which a guest that has to stop is diverted again.
const RETRY: Duration = Duration::from_micros(200);

/// Bytes of the thread's stack. The thread may drop what is left of a guest.
const STACK_SIZE: usize = 256 << 10;

/// Number of ticks without a job after which the thread sleeps. Waking it costs more than a short job's own work, and in a
/// warm host the next job follows soon.
const IDLE_TICKS_BEFORE_SLEEP: u32 = 10;

/// The thread that increments the epoch of an engine, and stops guests whose code does not check for interruption. It
/// sleeps if no job has run for a while.
///
/// It is an operating system thread and not a task, so that it runs even while every worker of an executor computes.
#[derive(Default)]
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    running: usize,
    /// The engine whose code checks for interruption.
    engine: Option<wasmtime::Engine>,
    guests: Vec<Arc<WatchedGuest>>,
    started: bool,
    asleep: bool,
    closed: bool,
}

/// Guard that counts a job as running until it is dropped.
pub(crate) struct TickerGuard(Arc<Shared>);

/// Guard that keeps a guest watched until it is dropped.
pub(super) struct WatchGuard(Arc<Shared>, Arc<WatchedGuest>);

impl Ticker {
    /// Counts a job as running until the returned value is dropped. The epoch of `engine` advances meanwhile.
    ///
    /// # Errors
    /// The system's error if the thread cannot be started.
    pub(crate) fn run(&self, engine: Option<&wasmtime::Engine>) -> std::io::Result<TickerGuard> {
        let mut state = self.shared.state();
        if !state.started {
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name("codebox-ticker".into()).stack_size(STACK_SIZE);
            let thread = thread.spawn(move || shared.tick())?;
            *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
            state.started = true;
        }
        state.running += 1;
        if let (None, Some(engine)) = (&state.engine, engine) {
            state.engine = Some(engine.clone());
        }
        let asleep = state.asleep;
        drop(state);
        if asleep {
            self.shared.changed.notify_one();
        }
        Ok(TickerGuard(self.shared.clone()))
    }

    /// Watches a guest of a running job.
    pub(super) fn watch(&self, guest: &Arc<WatchedGuest>) -> WatchGuard {
        self.shared.state().guests.push(guest.clone());
        WatchGuard(self.shared.clone(), guest.clone())
    }
}

impl Shared {
    fn tick(&self) {
        let mut state = self.state();
        let mut last_tick = Instant::now();
        let mut idle = 0;
        while !state.closed {
            idle = if state.running == 0 { idle + 1 } else { 0 };
            if idle > IDLE_TICKS_BEFORE_SLEEP {
                state.asleep = true;
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.asleep = false;
                idle = 0;
                continue;
            }
            let guests = state.guests.clone();
            let engine = state.engine.clone();
            // A guest that ends meanwhile must not wait.
            drop(state);
            // Every guest is checked.
            let is_stopping = guests.iter().filter(|guest| guest.stop_if_due()).count() > 0;
            drop(guests);
            let pause = if is_stopping { RETRY } else { TICK };
            state = self.state();
            if state.closed {
                // The notification may have come before the wait.
                return;
            }
            state = self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
            if let Some(engine) = engine
                && last_tick.elapsed() >= TICK
            {
                engine.increment_epoch();
                last_tick = Instant::now();
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TickerGuard {
    fn drop(&mut self) {
        self.0.state().running -= 1;
    }
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.0.state().guests.retain(|guest| !Arc::ptr_eq(guest, &self.1));
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.shared.changed.notify_one();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        thread.into_iter().for_each(|thread| drop(thread.join()));
    }
}
