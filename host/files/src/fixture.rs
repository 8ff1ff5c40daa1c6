//! Shared helpers of the unit tests.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, anyhow};

/// A flag that ends the loop of a racing thread when the test ends.
#[derive(Default)]
pub(crate) struct StopFlag(AtomicBool);

impl StopFlag {
    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set_on_drop(&self) -> impl Drop + '_ {
        struct SetOnDrop<'a>(&'a AtomicBool);
        impl Drop for SetOnDrop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        SetOnDrop(&self.0)
    }
}

/// Runs `work` on a thread without root's file capabilities, so that file modes apply.
#[cfg(target_os = "linux")]
pub(crate) fn run_unprivileged(work: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let mut sets = capabilities(None)?;
            sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH | CapabilitySet::FOWNER;
            set_capabilities(None, sets)?;
            work()
        });
        thread.join().map_err(|_| anyhow!("the thread panicked"))?
    })
}

/// Runs `work` as the user who runs the tests.
#[cfg(all(unix, not(target_os = "linux")))]
pub(crate) fn run_unprivileged(work: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    work()
}
