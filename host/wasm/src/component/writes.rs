//! Quota checks for writes to files.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{DynOutputStream, OutputStream, Pollable, StreamError, StreamResult};

use crate::guest::Quota;

/// A stream to a file that counts each write against the quota.
pub(crate) struct QuotaStream {
    pub inner: DynOutputStream,
    pub quota: Arc<Mutex<Quota>>,
}

/// Counts a write of this many bytes against the quota.
///
/// # Errors
/// [`io::ErrorKind::QuotaExceeded`] if the quota is reached.
pub(crate) fn charge_quota(quota: &Mutex<Quota>, bytes: u64) -> io::Result<()> {
    let charged = quota.lock().unwrap_or_else(PoisonError::into_inner).write(bytes);
    charged.map_err(|_| io::ErrorKind::QuotaExceeded.into())
}

#[async_trait]
impl Pollable for QuotaStream {
    async fn ready(&mut self) {
        self.inner.ready().await;
    }
}

#[async_trait]
impl OutputStream for QuotaStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        charge_quota(&self.quota, bytes.len() as u64).map_err(|e| StreamError::LastOperationFailed(e.into()))?;
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.inner.flush()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.inner.check_write()
    }

    async fn cancel(&mut self) {
        self.inner.cancel().await;
    }
}
