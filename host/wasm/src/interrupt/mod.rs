//! Stops guests. All interruption of running and waiting guests is implemented here.
//!
//! A thread checks the conditions of computing guests on every [`TICK`]. If one has to stop, the thread diverts it to an
//! instruction that traps ([`sys::Divertible`](crate::sys::Divertible)). The code of components, and all code on systems
//! without that, checks for interruption itself, by epochs: the same thread increments the engine's epoch, and at each
//! tick the guest yields to its executor.
//!
//! A waiting guest is in an async host call, which has yielded already. [`Interrupt::watch`] races the guest against its
//! deadline, its processor time and its cancellation. All guests end in the same manner: their future and their store are
//! dropped.

mod clock;
mod ticker;
mod watched;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use codebox_core::{CancelToken, LimitKind};
use codebox_egress::Egress;

pub(crate) use clock::{CpuClock, HostCpuTime};
pub(crate) use ticker::{Ticker, TickerGuard};
use watched::WatchedGuest;

use crate::sys::Divertible;

/// The reason why a guest was stopped from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// A limit on time was reached.
    Limit(LimitKind),
    /// The caller cancelled the job.
    Cancelled,
}

/// The conditions that stop one job.
#[derive(Clone)]
pub(crate) struct Interrupt {
    /// Maximum wall time, from the start of the job.
    pub wall: Option<Duration>,
    /// Maximum processor time.
    pub cpu: Option<Duration>,
    /// The clock that measures the processor time.
    pub clock: CpuClock,
    /// The caller's cancellation token.
    pub cancel: CancelToken,
    /// Token that is cancelled if nothing waits for the job any more.
    pub abandoned: CancelToken,
    /// The job's network access, whose limits also end the job.
    pub egress: Option<Egress>,
    /// Processor time outside of the guest that counts towards the job's.
    pub host_cpu_time: HostCpuTime,
}

impl Interrupt {
    /// Runs a guest's future until it ends or has to be stopped. Also returns the processor time that it used.
    ///
    /// `divertible` is the guest, if its code does not check for interruption, with the thread that diverts it.
    pub(crate) async fn watch<F: Future>(
        &self,
        guest: F,
        divertible: Option<(Divertible, &Ticker)>,
    ) -> (Result<F::Output, StopReason>, Duration) {
        let (divertible, ticker) = divertible.unzip();
        let watched = Arc::new(WatchedGuest::new(self.clone(), divertible));
        let _guard = ticker.map(|ticker| ticker.watch(&watched));
        let metered = MeteredFuture { future: pin!(guest), watched: &watched };
        let end = tokio::select! {
            biased;
            end = metered => end,
            () = self.cancel.cancelled() => Err(StopReason::Cancelled),
            () = self.abandoned.cancelled() => Err(StopReason::Cancelled),
            () = sleep_until(watched.deadline()) => Err(StopReason::Limit(LimitKind::Wall)),
            kind = limit_reached(self.egress.as_ref()) => Err(StopReason::Limit(kind)),
        };
        (end, watched.used())
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
    watched: &'a WatchedGuest,
}

impl<F: Future> Future for MeteredFuture<'_, F> {
    type Output = Result<F::Output, StopReason>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let watched = self.watched;
        let polled = watched.measure(|| self.future.as_mut().poll(cx));
        if let Some(reason) = watched.diverted() {
            // The trap of a diverted guest is not an error of the program.
            return Poll::Ready(Err(reason));
        }
        match (polled, watched.due_after_poll()) {
            (Poll::Ready(output), _) => Poll::Ready(Ok(output)),
            (Poll::Pending, Some(reason)) => Poll::Ready(Err(reason)),
            (Poll::Pending, None) => Poll::Pending,
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use codebox_core::EnforcementLevel;

    use super::*;
    use crate::sys::thread_cpu_time;

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
            abandoned: CancelToken::new(),
            egress: None,
            host_cpu_time: HostCpuTime::default(),
        }
    }

    #[tokio::test]
    async fn process_clock_counts_other_threads() {
        let cpu_spent = Duration::from_millis(100);
        let (end, used) = interrupt(CpuClock::Process, None).watch(spend_cpu_on_another_thread(cpu_spent), None).await;
        assert!(end.is_ok() && used >= cpu_spent, "{used:?}");
        let (end, used) = interrupt(CpuClock::Thread, None).watch(spend_cpu_on_another_thread(cpu_spent), None).await;
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
        let (end, used) = interrupt(CpuClock::Process, Some(Duration::from_millis(50))).watch(job, None).await;
        assert_eq!(end.err(), Some(StopReason::Limit(LimitKind::Cpu)));
        assert!(used >= Duration::from_millis(50), "{used:?}");
    }
}
