//! Quota checks for writes to files.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{DynOutputStream, OutputStream, Pollable, StreamError, StreamResult};

use crate::guest::Quota;

/// A stream to a file that counts each write against the quota.
pub(crate) struct Counted {
    pub behind: DynOutputStream,
    pub quota: Arc<Mutex<Quota>>,
}

/// Counts a write of this many bytes against the quota.
///
/// # Errors
/// [`io::ErrorKind::QuotaExceeded`] if the quota is reached.
pub(crate) fn ask(quota: &Mutex<Quota>, bytes: u64) -> io::Result<()> {
    let asked = quota.lock().unwrap_or_else(PoisonError::into_inner).write(bytes);
    asked.map_err(|_| io::ErrorKind::QuotaExceeded.into())
}

#[async_trait]
impl Pollable for Counted {
    async fn ready(&mut self) {
        self.behind.ready().await;
    }
}

#[async_trait]
impl OutputStream for Counted {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        ask(&self.quota, bytes.len() as u64).map_err(|e| StreamError::LastOperationFailed(e.into()))?;
        self.behind.write(bytes)
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.behind.flush()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.behind.check_write()
    }

    async fn cancel(&mut self) {
        self.behind.cancel().await;
    }
}
