//! Standard error that is held back briefly, so that it can be discarded when another run replaces its run.
//!
//! Standard output that is written meanwhile waits behind it, so that the streams keep their order where they are one file.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use codebox_core::OutputSink;

/// Time for which output is held back; a failing program prints its error messages within that time before its end.
const DELAY: Duration = Duration::from_millis(100);

/// Most bytes that wait. More are passed on at once, so that a reader that is slower than the program stops it.
const MAX_WAITING: usize = 256 << 10;

/// Time limit for acquiring the state's lock, which a stalled reader can block.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);

/// A sink for standard error that passes text on after a short delay.
#[derive(Clone)]
pub(crate) struct DelayedSink(Arc<Shared>);

/// A sink for standard output that several runs use in succession.
pub(crate) type SharedOutput = Arc<Mutex<Box<dyn OutputSink>>>;

/// Writes to standard output.
pub(crate) fn write_to(output: &SharedOutput, bytes: &[u8]) -> io::Result<()> {
    output.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
}

/// Text that waits.
enum Piece {
    Error(Vec<u8>),
    Output(Vec<u8>),
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    inner: Option<Box<dyn OutputSink>>,
    output: Option<SharedOutput>,
    /// The waiting text in its order. The first piece is one of standard error.
    waiting: Vec<Piece>,
    /// Number of waiting bytes.
    size: usize,
    /// Times at which the first and the last of the held bytes were written.
    since: Option<(Instant, Instant)>,
    has_forwarder: bool,
    frozen: bool,
    closed: bool,
}

impl DelayedSink {
    /// Creates a sink that delays the text to `inner`, and the standard output that follows it.
    #[must_use]
    pub(crate) fn new(inner: Box<dyn OutputSink>, output: Option<SharedOutput>) -> Self {
        let state = State {
            inner: Some(inner),
            output,
            waiting: Vec::new(),
            size: 0,
            since: None,
            has_forwarder: false,
            frozen: false,
            closed: false,
        };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }))
    }

    /// Has standard output wait behind the held text. Returns false if none is held.
    pub(crate) fn hold_output(&self, bytes: &[u8]) -> bool {
        let mut state = self.0.lock();
        let is_held = !state.waiting.is_empty();
        if is_held {
            state.hold(Piece::Output(bytes.to_vec()));
        }
        is_held
    }

    /// Stops passing output on until [`discard`](Self::discard) or [`finish`](Self::finish) is called.
    pub(crate) fn freeze(&self) {
        if let Some(mut state) = self.0.try_lock_for_timeout() {
            state.frozen = true;
        }
    }

    /// Drops the held and all later text, passes on the standard output behind it, and returns the inner sink; `None` if a stalled reader
    /// blocks it.
    pub(crate) fn discard(&self) -> Option<Box<dyn OutputSink>> {
        let inner = self.0.try_lock_for_timeout().and_then(|mut state| {
            state.waiting.retain(|piece| matches!(piece, Piece::Output(_)));
            let _ = state.forward();
            state.closed = true;
            state.inner.take()
        });
        self.0.changed.notify_all();
        inner
    }

    /// Passes the held output on, drops the inner sink, and then calls `done`.
    ///
    /// Runs on a thread of its own, for as long as the reader takes. If the sink was never written to, it runs on the
    /// calling thread.
    pub(crate) fn finish(&self, done: impl FnOnce() + Send + 'static) {
        let shared = Arc::clone(&self.0);
        let never_written = match shared.state.try_lock() {
            Ok(state) => !state.has_forwarder,
            Err(_) => false,
        };
        if never_written {
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
        let _ = state.forward();
        state.inner = None;
        state.closed = true;
        self.changed.notify_all();
    }

    /// Locks the state; returns `None` if a stalled reader keeps it locked for longer than [`LOCK_TIMEOUT`].
    fn try_lock_for_timeout(&self) -> Option<MutexGuard<'_, State>> {
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            match self.state.try_lock() {
                Ok(state) => return Some(state),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(Duration::from_millis(2)),
                Err(TryLockError::WouldBlock) => return None,
            }
        }
    }

    fn forward_when_due(&self) {
        let mut state = self.lock();
        while !state.closed {
            state = self.changed.wait_timeout(state, DELAY / 2).unwrap_or_else(PoisonError::into_inner).0;
            // Output is passed on after a pause, or after a longer time if there is no pause.
            let is_due = |(first, last): (Instant, Instant)| last.elapsed() >= DELAY || first.elapsed() >= 5 * DELAY;
            if !state.frozen && state.since.is_some_and(is_due) {
                let _ = state.forward();
            }
        }
    }
}

impl State {
    /// Adds a piece to the waiting text.
    fn hold(&mut self, piece: Piece) {
        let (Piece::Error(bytes) | Piece::Output(bytes)) = &piece;
        self.size += bytes.len();
        self.waiting.push(piece);
        let now = Instant::now();
        self.since = Some((self.since.map_or(now, |(first, _)| first), now));
        if self.size > MAX_WAITING && !self.frozen {
            let _ = self.forward();
        }
    }

    /// Passes the waiting text on. Both streams are written, even if one of them has failed.
    fn forward(&mut self) -> io::Result<()> {
        (self.since, self.size) = (None, 0);
        let mut result = Ok(());
        for piece in std::mem::take(&mut self.waiting) {
            let written = match (piece, &mut self.inner, &self.output) {
                (Piece::Error(bytes), Some(inner), _) => inner.write(&bytes),
                (Piece::Output(bytes), _, Some(output)) => write_to(output, &bytes),
                _ => Ok(()),
            };
            result = result.and(written);
        }
        result
    }
}

impl OutputSink for DelayedSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock();
        if state.closed {
            return Ok(());
        }
        state.hold(Piece::Error(bytes.to_vec()));
        if !state.has_forwarder {
            state.has_forwarder = true;
            let shared = Arc::clone(&self.0);
            if thread::Builder::new().name("codebox-linger".into()).spawn(move || shared.forward_when_due()).is_err() {
                return state.forward();
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
    pub(crate) struct RecordingSink(Arc<Mutex<Vec<u8>>>);

    impl OutputSink for RecordingSink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.0.lock().expect("no panic before").extend_from_slice(bytes);
            Ok(())
        }
    }

    impl RecordingSink {
        pub(crate) fn text(&self) -> String {
            String::from_utf8_lossy(&self.0.lock().expect("no panic before")).into_owned()
        }
    }

    /// Waits until the held output has been passed on.
    fn finish(sink: &DelayedSink) {
        let (sender, receiver) = mpsc::channel();
        sink.finish(move || sender.send(()).expect("the receiver exists"));
        receiver.recv().expect("the output is passed on");
    }

    #[test]
    fn held_output_can_be_discarded_or_forwarded() {
        let recorded = RecordingSink::default();
        let mut sink = DelayedSink::new(Box::new(recorded.clone()), None);
        sink.write(b"x").expect("the sink accepts the data");
        let mut inner = sink.discard().expect("no reader is stalled");
        sink.write(b"y").expect("the sink accepts the data");
        inner.write(b"z").expect("the sink accepts the data");
        assert_eq!(recorded.text(), "z");
        let mut sink = DelayedSink::new(Box::new(recorded.clone()), None);
        sink.write(b"x").expect("the sink accepts the data");
        finish(&sink);
        assert_eq!(recorded.text(), "zx");
    }

    #[test]
    fn unwritten_sink_finishes_at_once() {
        let recorded = RecordingSink::default();
        let sink = DelayedSink::new(Box::new(recorded.clone()), None);
        finish(&sink);
        assert!(sink.discard().is_none());
        assert_eq!(Arc::strong_count(&recorded.0), 1);
    }
}
