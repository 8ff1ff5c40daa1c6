//! Stops guests. All interruption of running and waiting guests is implemented here.
//!
//! A computing guest is interrupted by epochs: a thread increments the engine's epoch on every [`TICK`] while a job
//! runs, and at each tick the guest yields to its executor. A waiting guest is in an async host call, which has yielded
//! already. [`Interrupt::watch`] races the guest against its deadline, its processor time and its cancellation, so both
//! kinds of guest end in the same manner: their future and their store are dropped.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use codebox_core::{CancelToken, EnforcementLevel, LimitKind};
use codebox_egress::Egress;

#[cfg(unix)]
use crate::sys::process_cpu_time;
use crate::sys::thread_cpu_time;

/// Interval at which a computing guest can be interrupted.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Number of ticks without a job after which the ticking thread sleeps. Waking the thread costs more than a short job's
/// own work, and in a warm host the next job follows soon.
const IDLE_TICKS_BEFORE_SLEEP: u32 = 10;

/// The reason why a guest was stopped from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// A limit on time was reached.
    Limit(LimitKind),
    /// The caller cancelled the job.
    Cancelled,
}

/// The conditions that stop one job.
pub(crate) struct Interrupt {
    /// Maximum wall time, from the start of the job.
    pub wall: Option<Duration>,
    /// Maximum processor time.
    pub cpu: Option<Duration>,
    /// The clock that measures the processor time.
    pub clock: CpuClock,
    /// The caller's cancellation token.
    pub cancel: CancelToken,
    /// The job's network access, whose limits also end the job.
    pub egress: Option<Egress>,
    /// Processor time outside of the guest that counts towards the job's.
    pub host_cpu_time: HostCpuTime,
}

/// Processor time that the host, or one of its processes, spends for a job outside of its guest.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostCpuTime(Arc<AtomicU64>);

impl HostCpuTime {
    /// Adds processor time.
    pub(crate) fn add(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| Some(before.saturating_add(nanos)));
    }

    /// Returns the total processor time.
    pub(crate) fn total(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// The clock that measures a job's processor time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CpuClock {
    /// Clock of the thread that polls the job, during each poll. It excludes work on files that other threads do.
    Thread,
    /// Clock of the whole process, which runs one job at a time.
    #[cfg(unix)]
    Process,
}

impl CpuClock {
    /// Returns the clock of the process or, on systems without one, of the thread.
    pub(crate) fn for_process() -> Self {
        #[cfg(unix)]
        {
            Self::Process
        }
        #[cfg(not(unix))]
        Self::Thread
    }

    /// Returns the enforcement level of a limit on this clock's time.
    pub(crate) fn limit_enforcement(self) -> EnforcementLevel {
        match self {
            Self::Thread => EnforcementLevel::BestEffort,
            #[cfg(unix)]
            Self::Process => EnforcementLevel::Enforced,
        }
    }

    fn now(self) -> Duration {
        match self {
            Self::Thread => thread_cpu_time(),
            #[cfg(unix)]
            Self::Process => process_cpu_time(),
        }
    }
}

impl Interrupt {
    /// Runs a guest's future until it ends or has to be stopped. Also returns the processor time that it used.
    pub(crate) async fn watch<F: Future>(&self, guest: F) -> (Result<F::Output, StopReason>, Duration) {
        let mut used = Duration::ZERO;
        let deadline = self.wall.and_then(|wall| Instant::now().checked_add(wall));
        let started_at = self.clock.now();
        let (clock, host) = (self.clock, &self.host_cpu_time);
        let metered = MeteredFuture { future: pin!(guest), clock, started_at, used: &mut used, host, limit: self.cpu };
        let end = tokio::select! {
            biased;
            end = metered => end,
            () = self.cancel.cancelled() => Err(StopReason::Cancelled),
            () = sleep_until(deadline) => Err(StopReason::Limit(LimitKind::Wall)),
            kind = limit_reached(self.egress.as_ref()) => Err(StopReason::Limit(kind)),
        };
        (end, used + self.host_cpu_time.total())
    }
}

async fn limit_reached(egress: Option<&Egress>) -> LimitKind {
    match egress {
        Some(egress) => egress.limit_reached().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// Future that measures the processor time of another future and ends it at a limit. The time is the sum over all
/// polls, on any thread, or the time that the process has used since the start.
struct MeteredFuture<'a, F> {
    future: Pin<&'a mut F>,
    clock: CpuClock,
    /// The clock's time at the start.
    started_at: Duration,
    used: &'a mut Duration,
    host: &'a HostCpuTime,
    limit: Option<Duration>,
}

impl<F: Future> Future for MeteredFuture<'_, F> {
    type Output = Result<F::Output, StopReason>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let before = self.clock.now();
        let polled = self.future.as_mut().poll(cx);
        let now = self.clock.now();
        match self.clock {
            CpuClock::Thread => *self.used += now.saturating_sub(before),
            // The time includes the work of other threads between polls.
            #[cfg(unix)]
            CpuClock::Process => *self.used = now.saturating_sub(self.started_at),
        }
        match polled {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending if self.limit.is_some_and(|limit| *self.used + self.host.total() >= limit) => {
                Poll::Ready(Err(StopReason::Limit(LimitKind::Cpu)))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

/// The thread that increments an engine's epoch. It sleeps if no job has run for a while.
///
/// It is an operating system thread and not a task, so that it ticks even while every worker of an executor computes.
pub(crate) struct Ticker {
    engine: wasmtime::Engine,
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
    started: bool,
    asleep: bool,
    closed: bool,
}

/// Guard that keeps the epoch advancing until it is dropped.
pub(crate) struct TickerGuard(Arc<Shared>);

impl Ticker {
    pub(crate) fn new(engine: wasmtime::Engine) -> Self {
        Self { engine, shared: Arc::default(), thread: Mutex::default() }
    }

    /// Counts a job as running until the returned value is dropped.
    ///
    /// # Errors
    /// The system's error if the ticking thread cannot be started.
    pub(crate) fn run(&self) -> std::io::Result<TickerGuard> {
        let mut state = self.shared.state();
        if !state.started {
            let (engine, shared) = (self.engine.clone(), self.shared.clone());
            let tick = move || shared.tick(&engine);
            let thread = std::thread::Builder::new().name("codebox-ticker".into()).stack_size(64 << 10).spawn(tick)?;
            *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
            state.started = true;
        }
        state.running += 1;
        let asleep = state.asleep;
        drop(state);
        if asleep {
            self.shared.changed.notify_one();
        }
        Ok(TickerGuard(self.shared.clone()))
    }
}

impl Shared {
    fn tick(&self, engine: &wasmtime::Engine) {
        let mut state = self.state();
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
            state = self.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
            engine.increment_epoch();
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TickerGuard {
    fn drop(&mut self) {
        self.0.state().running -= 1;
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// Works in another thread while the job waits, as file operations do.
    async fn spend_cpu_on_another_thread(time: Duration) {
        let work = tokio::task::spawn_blocking(move || {
            let started_at = thread_cpu_time();
            while thread_cpu_time().saturating_sub(started_at) < time {
                std::hint::spin_loop();
            }
        });
        work.await.expect("it does not panic");
    }

    fn interrupt(clock: CpuClock, cpu: Option<Duration>) -> Interrupt {
        Interrupt {
            wall: None,
            cpu,
            clock,
            cancel: CancelToken::new(),
            egress: None,
            host_cpu_time: HostCpuTime::default(),
        }
    }

    #[tokio::test]
    async fn process_clock_counts_other_threads() {
        let cpu_spent = Duration::from_millis(100);
        let (end, used) = interrupt(CpuClock::Process, None).watch(spend_cpu_on_another_thread(cpu_spent)).await;
        assert!(end.is_ok() && used >= cpu_spent, "{used:?}");
        let (end, used) = interrupt(CpuClock::Thread, None).watch(spend_cpu_on_another_thread(cpu_spent)).await;
        assert!(end.is_ok() && used < cpu_spent, "{used:?}");
        assert_eq!(
            [CpuClock::Thread, CpuClock::Process].map(CpuClock::limit_enforcement),
            [EnforcementLevel::BestEffort, EnforcementLevel::Enforced]
        );
    }

    #[tokio::test]
    async fn cpu_limit_counts_other_threads() {
        let job = async {
            loop {
                spend_cpu_on_another_thread(Duration::from_millis(5)).await;
            }
        };
        let (end, used) = interrupt(CpuClock::Process, Some(Duration::from_millis(50))).watch(job).await;
        assert_eq!(end.err(), Some(StopReason::Limit(LimitKind::Cpu)));
        assert!(used >= Duration::from_millis(50), "{used:?}");
    }
}
