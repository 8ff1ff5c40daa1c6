//! Streams of a run that may have to be given up for another: what was read is remembered, what was printed is not printed
//! twice, and the last words on standard error are held back for a moment.

use std::io::{self, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use codebox_core::OutputSink;

/// How long standard error is held back: what a dying program says of its end comes within that.
const MOMENT: Duration = Duration::from_millis(100);

/// How long somebody who does not read standard error is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// Most bytes of input that are remembered.
const REMEMBERED: usize = 1 << 20;

/// A reader that remembers what it gave.
pub(crate) struct Remembering {
    inner: Box<dyn Read + Send>,
    memory: Memory,
}

/// What was read; nothing once that was too much.
pub(crate) type Memory = Arc<Mutex<Option<Vec<u8>>>>;

impl Remembering {
    pub(crate) fn new(inner: Box<dyn Read + Send>) -> (Self, Memory) {
        let memory = Memory::new(Mutex::new(Some(Vec::new())));
        (Self { inner, memory: Arc::clone(&memory) }, memory)
    }
}

impl Read for Remembering {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *memory {
            Some(read) if read.len() + count <= REMEMBERED => read.extend_from_slice(&into[..count]),
            memory => *memory = None,
        }
        Ok(count)
    }
}

/// A sink that leaves out what was printed before, as long as it is the same.
pub(crate) struct Continuing {
    inner: Box<dyn OutputSink>,
    before: Vec<u8>,
    at: usize,
}

impl Continuing {
    pub(crate) fn new(inner: Box<dyn OutputSink>, before: Vec<u8>) -> Self {
        Self { inner, before, at: 0 }
    }
}

impl OutputSink for Continuing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let expected = &self.before[self.at..];
        let same = expected.iter().zip(bytes).take_while(|(one, two)| one == two).count();
        self.at += same;
        if same < bytes.len() && self.at < self.before.len() {
            // It goes another way now; what comes is new, all of it.
            self.at = self.before.len();
        }
        if same < bytes.len() { self.inner.write(&bytes[same..]) } else { Ok(()) }
    }
}

/// A sink that passes on what it was given a moment ago.
#[derive(Clone)]
pub(crate) struct Lingering(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    inner: Option<Box<dyn OutputSink>>,
    held: Vec<u8>,
    /// When the first and the last of what is held came.
    since: Option<(Instant, Instant)>,
    passing: bool,
    frozen: bool,
    over: bool,
}

impl Lingering {
    pub(crate) fn new(inner: Box<dyn OutputSink>) -> Self {
        let state =
            State { inner: Some(inner), held: Vec::new(), since: None, passing: false, frozen: false, over: false };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }))
    }

    /// Passes nothing on from now on, until it is decided what becomes of it.
    pub(crate) fn freeze(&self) {
        if let Some(mut state) = self.0.lock_in_time() {
            state.frozen = true;
        }
    }

    /// Drops what is held back, and whatever comes.
    pub(crate) fn discard(&self) {
        if let Some(mut state) = self.0.lock_in_time() {
            state.held.clear();
            state.inner = None;
            state.over = true;
        }
        self.0.changed.notify_all();
    }

    /// Passes on what is held back; the sink is gone then. Somebody who does not read it is waited for a moment only.
    pub(crate) fn finish(&self) {
        let (said, all) = mpsc::channel();
        let shared = Arc::clone(&self.0);
        let finish = move || {
            let mut state = shared.lock();
            let _ = state.pass();
            state.inner = None;
            state.over = true;
            shared.changed.notify_all();
            let _ = said.send(());
        };
        if thread::Builder::new().name("codebox-linger".into()).spawn(finish).is_ok() {
            let _ = all.recv_timeout(PATIENCE);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, if nobody who does not read keeps it for longer than a moment.
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
            // Words that go on coming are not the last ones.
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
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl OutputSink for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.0.lock().expect("no panic before").extend_from_slice(bytes);
            Ok(())
        }
    }

    impl Kept {
        fn text(&self) -> String {
            String::from_utf8_lossy(&self.0.lock().expect("no panic before")).into_owned()
        }
    }

    #[test]
    fn what_was_printed_is_not_printed_again() {
        for (before, pieces, expected) in [
            ("", &["a", "b"][..], "ab"),
            ("ab", &["a", "bc", "d"], "cd"),
            ("abc", &["ab"], ""),
            ("abc", &["aX", "bc"], "Xbc"),
            ("ab", &["ab", "ab"], "ab"),
        ] {
            let kept = Kept::default();
            let mut sink = Continuing::new(Box::new(kept.clone()), before.into());
            for piece in pieces {
                sink.write(piece.as_bytes()).expect("it takes all");
            }
            assert_eq!(kept.text(), expected, "{before:?} {pieces:?}");
        }
    }

    #[test]
    fn last_words_can_be_taken_back_or_passed_on() {
        let kept = Kept::default();
        let mut sink = Lingering::new(Box::new(kept.clone()));
        sink.write(b"x").expect("it takes all");
        sink.discard();
        sink.write(b"y").expect("it takes all");
        assert_eq!(kept.text(), "");
        let mut sink = Lingering::new(Box::new(kept.clone()));
        sink.write(b"x").expect("it takes all");
        sink.finish();
        assert_eq!(kept.text(), "x");
    }

    #[test]
    fn what_was_read_is_remembered_up_to_a_bound() {
        let (mut reader, memory) = Remembering::new(Box::new(io::repeat(7)));
        reader.read_exact(&mut [0; 10]).expect("it never ends");
        assert_eq!(memory.lock().expect("no panic before").as_deref(), Some(&[7; 10][..]));
        reader.read_exact(&mut vec![0; REMEMBERED]).expect("it never ends");
        assert_eq!(*memory.lock().expect("no panic before"), None);
    }
}
