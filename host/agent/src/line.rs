//! The way back to the host, shared by all threads.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use codebox_agent::Word;

/// The agent's standard output; whole frames only, whichever thread sends them.
#[derive(Clone)]
pub(crate) struct Line(Arc<Mutex<File>>);

impl Line {
    /// Takes standard output as it is, without the buffer that std puts before it.
    pub(crate) fn of_stdout() -> io::Result<Self> {
        let stdout = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
        Ok(Self::over(File::from(stdout)))
    }

    /// A line over anything that takes bytes.
    pub(crate) fn over(out: File) -> Self {
        Self(Arc::new(Mutex::new(out)))
    }

    /// Sends a word. A host that is gone is found out by the reader of orders, so an error is nobody's here.
    pub(crate) fn send(&self, word: &Word) {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = out.write_all(&word.encode());
    }
}
