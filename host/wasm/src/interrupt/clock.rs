//! Processor time of jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use codebox_core::EnforcementLevel;

#[cfg(unix)]
use crate::sys::process_cpu_time;
use crate::sys::thread_cpu_time;

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

    /// Returns the clock's time, for the calling thread if it is the thread's clock.
    pub(super) fn now(self) -> Duration {
        match self {
            Self::Thread => thread_cpu_time(),
            #[cfg(unix)]
            Self::Process => process_cpu_time(),
        }
    }
}
