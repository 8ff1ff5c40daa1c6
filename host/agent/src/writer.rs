//! The output stream to the host, shared by all threads.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use codebox_agent::Event;

/// The agent's standard output. Threads can share it, because it writes whole frames only.
#[derive(Clone)]
pub(crate) struct EventWriter(Arc<Mutex<File>>);

impl EventWriter {
    /// Opens standard output directly, without the buffer of `std`.
    pub(crate) fn from_stdout() -> io::Result<Self> {
        let stdout = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
        Ok(Self::from_file(File::from(stdout)))
    }

    /// Creates a line that writes to `out`.
    pub(crate) fn from_file(out: File) -> Self {
        Self(Arc::new(Mutex::new(out)))
    }

    /// Sends an event. Errors are ignored, because the reader of requests detects that the host is gone.
    pub(crate) fn send(&self, event: &Event) {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = out.write_all(&event.encode());
    }
}
