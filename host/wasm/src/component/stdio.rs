//! A component's standard streams, with the same inputs, caps and live output as other guests.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use codebox_core::CapturedOutput;
use codebox_streams::{Delivery, Output, Stdin, WriteError};
use tokio::io::{AsyncRead, AsyncWrite};
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdinStream, StdoutStream};
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};

use crate::guest::Flood;

/// Maximum bytes of one write or one read.
const CHUNK_SIZE: usize = 64 << 10;

/// The streams of one guest. All handles of the guest refer to the same streams.
#[derive(Clone)]
pub(crate) struct Stdio(Arc<Shared>);

struct Shared {
    out: Mutex<[OutputState; 2]>,
    input: Mutex<InputState>,
    stdin: tokio::sync::Mutex<Stdin>,
    delivery: tokio::sync::Mutex<Delivery>,
    is_terminal: bool,
}

/// One of the output streams.
struct OutputState {
    capture: Output,
    /// Bytes that are not delivered to the live sink yet.
    pending: Vec<u8>,
    /// True once the receiver of live output accepts no more bytes.
    closed: bool,
}

/// Bytes that were read from standard input and not yet taken by the guest.
#[derive(Default)]
struct InputState {
    ready: Bytes,
    eof: bool,
    failed: Option<io::Error>,
}

impl Stdio {
    pub(crate) fn new(stdin: Stdin, outputs: [Output; 2], delivery: Delivery, is_terminal: bool) -> Self {
        let out = outputs.map(|capture| OutputState { capture, pending: Vec::new(), closed: false });
        Self(Arc::new(Shared {
            out: Mutex::new(out),
            input: Mutex::default(),
            stdin: tokio::sync::Mutex::new(stdin),
            delivery: tokio::sync::Mutex::new(delivery),
            is_terminal,
        }))
    }

    pub(crate) fn stdin(&self) -> StdinFactory {
        StdinFactory(self.clone())
    }

    pub(crate) fn output(&self, number: usize) -> OutputFactory {
        OutputFactory { stdio: self.clone(), number }
    }

    /// Waits until all output is delivered. The wait may be cancelled and started again.
    pub(crate) async fn finish(&self) {
        for number in 0..2 {
            self.deliver(number).await;
        }
        self.0.delivery.lock().await.finish().await;
    }

    /// Returns the captured bytes of both outputs.
    pub(crate) fn captured(&self) -> [CapturedOutput; 2] {
        let empty =
            || OutputState { capture: Output::new(codebox_core::Limit::Unlimited), pending: Vec::new(), closed: true };
        std::mem::replace(&mut *self.out(), [empty(), empty()]).map(|out| out.capture.finish())
    }

    fn out(&self) -> MutexGuard<'_, [OutputState; 2]> {
        self.0.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn input(&self) -> MutexGuard<'_, InputState> {
        self.0.input.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers the waiting bytes of an output. If the call is cancelled, the bytes remain in the queue.
    async fn deliver(&self, number: usize) {
        // Concurrent callers wait for the same bytes, so only one of them may read and send the bytes.
        let mut delivery = self.0.delivery.lock().await;
        let pending = self.out()[number].pending.clone();
        if pending.is_empty() {
            return;
        }
        let sent = delivery.send(number, &pending).await;
        let out = &mut self.out()[number];
        out.pending.clear();
        out.closed |= sent.is_err();
    }

    async fn fill(&self) {
        if self.input().eof || !self.input().ready.is_empty() || self.input().failed.is_some() {
            return;
        }
        let mut piece = vec![0; CHUNK_SIZE];
        let read = self.0.stdin.lock().await.read(&mut piece).await;
        let mut input = self.input();
        match read {
            Ok(0) => input.eof = true,
            Ok(count) => {
                piece.truncate(count);
                input.ready = piece.into();
            }
            Err(error) => input.failed = Some(error),
        }
    }
}

/// Factory of handles to standard input.
pub(crate) struct StdinFactory(Stdio);

/// Factory of handles to one of the outputs.
pub(crate) struct OutputFactory {
    stdio: Stdio,
    number: usize,
}

impl IsTerminal for StdinFactory {
    fn is_terminal(&self) -> bool {
        self.0.0.is_terminal
    }
}

impl IsTerminal for OutputFactory {
    fn is_terminal(&self) -> bool {
        self.stdio.0.is_terminal
    }
}

impl StdinStream for StdinFactory {
    // Only WASI 0.3 calls this function, and WASI 0.3 is not offered.
    fn async_stream(&self) -> Box<dyn AsyncRead + Send + Sync> {
        Box::new(tokio::io::empty())
    }

    fn p2_stream(&self) -> Box<dyn InputStream> {
        Box::new(Reader(self.0.clone()))
    }
}

impl StdoutStream for OutputFactory {
    // Only WASI 0.3 calls this function, as above.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(Writer { stdio: self.stdio.clone(), number: self.number })
    }
}

struct Reader(Stdio);

#[async_trait]
impl Pollable for Reader {
    async fn ready(&mut self) {
        self.0.fill().await;
    }
}

impl InputStream for Reader {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        let mut input = self.0.input();
        if let Some(error) = input.failed.take() {
            return Err(StreamError::LastOperationFailed(error.into()));
        }
        if input.ready.is_empty() && input.eof {
            return Err(StreamError::Closed);
        }
        let count = size.min(input.ready.len());
        Ok(input.ready.split_to(count))
    }
}

struct Writer {
    stdio: Stdio,
    number: usize,
}

#[async_trait]
impl Pollable for Writer {
    async fn ready(&mut self) {
        self.stdio.deliver(self.number).await;
    }
}

impl OutputStream for Writer {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let out = &mut self.stdio.out()[self.number];
        if out.closed {
            return Err(StreamError::Closed);
        }
        let permit = if out.pending.is_empty() { CHUNK_SIZE } else { 0 };
        if bytes.len() > permit {
            return Err(StreamError::trap("the guest wrote more than the permitted size"));
        }
        match out.capture.write(&bytes) {
            Ok(fits) => out.pending.extend_from_slice(&bytes[..fits]),
            Err(WriteError::Closed) => out.closed = true,
            Err(WriteError::Flood) => return Err(StreamError::Trap(Flood.into())),
        }
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        let out = &self.stdio.out()[self.number];
        match (out.closed, out.pending.is_empty()) {
            (true, _) => Err(StreamError::Closed),
            (false, true) => Ok(CHUNK_SIZE),
            (false, false) => Ok(0),
        }
    }
}
