//! Output that is held back briefly, so that it can be discarded when another run replaces its run.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use codebox_core::OutputSink;

/// Time for which output is held back; a failing program prints its error messages within that time before its end.
const MOMENT: Duration = Duration::from_millis(100);

/// Time limit for acquiring the state's lock, which a stalled reader can block.
const PATIENCE: Duration = Duration::from_millis(500);

/// A sink that passes output on after a short delay.
#[derive(Clone)]
pub struct Lingering(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    inner: Option<Box<dyn OutputSink>>,
    held: Vec<u8>,
    /// Times at which the first and the last of the held bytes were written.
    since: Option<(Instant, Instant)>,
    passing: bool,
    frozen: bool,
    over: bool,
}

impl Lingering {
    /// Creates a sink that delays the output to `inner`.
    #[must_use]
    pub fn new(inner: Box<dyn OutputSink>) -> Self {
        let state =
            State { inner: Some(inner), held: Vec::new(), since: None, passing: false, frozen: false, over: false };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }))
    }

    /// Stops passing output on until [`discard`](Self::discard) or [`finish`](Self::finish) is called.
    pub fn freeze(&self) {
        if let Some(mut state) = self.0.lock_in_time() {
            state.frozen = true;
        }
    }

    /// Drops the held and all later output, and returns the inner sink; `None` if a stalled reader blocks it.
    pub fn discard(&self) -> Option<Box<dyn OutputSink>> {
        let inner = self.0.lock_in_time().and_then(|mut state| {
            state.held.clear();
            state.over = true;
            state.inner.take()
        });
        self.0.changed.notify_all();
        inner
    }

    /// Passes the held output on, drops the inner sink, and then calls `done`.
    ///
    /// Runs on a thread of its own, for as long as the reader takes. If the sink was never written to, it runs on the
    /// calling thread.
    pub fn finish(&self, done: impl FnOnce() + Send + 'static) {
        let shared = Arc::clone(&self.0);
        let nothing_was_said = match shared.state.try_lock() {
            Ok(state) => !state.passing,
            Err(_) => false,
        };
        if nothing_was_said {
            shared.finish();
            return done();
        }
        let finish = move || {
            shared.finish();
            done();
        };
        // If no thread can be started, the held output is lost and `done` is dropped, which ends the caller's wait.
        let _ = thread::Builder::new().name("codebox-linger".into()).spawn(finish);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self) {
        let mut state = self.lock();
        let _ = state.pass();
        state.inner = None;
        state.over = true;
        self.changed.notify_all();
    }

    /// Locks the state; returns `None` if a stalled reader keeps it locked for longer than [`PATIENCE`].
    fn lock_in_time(&self) -> Option<MutexGuard<'_, State>> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.state.try_lock() {
                Ok(state) => return Some(state),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(Duration::from_millis(2)),
                Err(TryLockError::WouldBlock) => return None,
            }
        }
    }

    fn pass_on(&self) {
        let mut state = self.lock();
        while !state.over {
            state = self.changed.wait_timeout(state, MOMENT / 2).unwrap_or_else(PoisonError::into_inner).0;
            // Output is passed on after a pause, or after a longer time if there is no pause.
            let is_due = |(first, last): (Instant, Instant)| last.elapsed() >= MOMENT || first.elapsed() >= 5 * MOMENT;
            if !state.frozen && state.since.is_some_and(is_due) {
                let _ = state.pass();
            }
        }
    }
}

impl State {
    fn pass(&mut self) -> io::Result<()> {
        self.since = None;
        let held = std::mem::take(&mut self.held);
        match &mut self.inner {
            Some(inner) if !held.is_empty() => inner.write(&held),
            _ => Ok(()),
        }
    }
}

impl OutputSink for Lingering {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock();
        if state.over {
            return Ok(());
        }
        state.held.extend_from_slice(bytes);
        let now = Instant::now();
        state.since = Some((state.since.map_or(now, |(first, _)| first), now));
        if !state.passing {
            state.passing = true;
            let shared = Arc::clone(&self.0);
            if thread::Builder::new().name("codebox-linger".into()).spawn(move || shared.pass_on()).is_err() {
                return state.pass();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A sink that records its input.
    #[derive(Clone, Default)]
    pub(crate) struct Kept(Arc<Mutex<Vec<u8>>>);

    impl OutputSink for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.0.lock().expect("no panic before").extend_from_slice(bytes);
            Ok(())
        }
    }

    impl Kept {
        pub(crate) fn text(&self) -> String {
            String::from_utf8_lossy(&self.0.lock().expect("no panic before")).into_owned()
        }
    }

    /// Waits until the held output has been passed on.
    fn finish(sink: &Lingering) {
        let (say, said) = mpsc::channel();
        sink.finish(move || say.send(()).expect("somebody waits"));
        said.recv().expect("it comes to an end");
    }

    #[test]
    fn last_words_can_be_taken_back_or_passed_on() {
        let kept = Kept::default();
        let mut sink = Lingering::new(Box::new(kept.clone()));
        sink.write(b"x").expect("it takes all");
        let mut inner = sink.discard().expect("nobody is stuck");
        sink.write(b"y").expect("it takes all");
        inner.write(b"z").expect("it takes all");
        assert_eq!(kept.text(), "z");
        let mut sink = Lingering::new(Box::new(kept.clone()));
        sink.write(b"x").expect("it takes all");
        finish(&sink);
        assert_eq!(kept.text(), "zx");
    }

    #[test]
    fn a_sink_that_was_told_nothing_is_gone_at_once() {
        let kept = Kept::default();
        let sink = Lingering::new(Box::new(kept.clone()));
        finish(&sink);
        assert!(sink.discard().is_none());
        assert_eq!(Arc::strong_count(&kept.0), 1);
    }
}
