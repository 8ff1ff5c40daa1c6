//! Standard input of a guest: bytes known beforehand, or a stream that is read on demand.

use std::io::{self, Read};

use codebox_core::ExecIo;
use tokio::sync::mpsc;

/// Maximum number of bytes of one read from a streamed input.
const CHUNK_SIZE: usize = 64 << 10;

/// One input stream; a read past its end returns no bytes.
pub struct Stdin {
    source: Source,
    buffer: Vec<u8>,
    at: usize,
}

enum Source {
    RunEnd,
    Waiting(Box<dyn Read + Send>),
    Reading { request_sender: std::sync::mpsc::Sender<()>, chunks: mpsc::Receiver<io::Result<Vec<u8>>> },
}

impl Stdin {
    /// Creates a job's input; a streamed input is taken from `io`.
    pub fn of(stdin: &codebox_core::Stdin, io: &mut ExecIo) -> Self {
        match stdin {
            codebox_core::Stdin::Empty => Self::bytes(Vec::new()),
            codebox_core::Stdin::Bytes(bytes) => Self::bytes(bytes.clone()),
            codebox_core::Stdin::Streamed => io.stdin.take().map_or_else(|| Self::bytes(Vec::new()), Self::stream),
        }
    }

    /// Creates an input that holds these bytes.
    pub fn bytes(bytes: Vec<u8>) -> Self {
        Self { source: Source::RunEnd, buffer: bytes, at: 0 }
    }

    /// Creates an input that reads from `reader` only when the guest reads.
    pub fn stream(reader: Box<dyn Read + Send>) -> Self {
        Self { source: Source::Waiting(reader), buffer: Vec::new(), at: 0 }
    }

    /// Waits for at least one byte and copies the available bytes that fit; returns 0 at the end of the input.
    ///
    /// The wait can be cancelled: the reading thread then stays in its read, without holding a lock, until the reader
    /// returns or the process ends.
    pub async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        if self.at == self.buffer.len() {
            self.fill().await?;
        }
        let from = &self.buffer[self.at..];
        let count = from.len().min(into.len());
        into[..count].copy_from_slice(&from[..count]);
        self.at += count;
        Ok(count)
    }

    async fn fill(&mut self) -> io::Result<()> {
        self.buffer.clear();
        self.at = 0;
        self.source = match std::mem::replace(&mut self.source, Source::RunEnd) {
            Source::Waiting(reader) => spawn(reader)?,
            other => other,
        };
        if let Source::Reading { request_sender, chunks } = &mut self.source {
            let chunk = match request_sender.send(()) {
                Ok(()) => chunks.recv().await.unwrap_or(Ok(Vec::new())),
                Err(_) => Ok(Vec::new()),
            };
            self.buffer = chunk?;
            if self.buffer.is_empty() {
                self.source = Source::RunEnd;
            }
        }
        Ok(())
    }
}

/// Starts a thread for one reader. A read of a pipe or terminal cannot be interrupted, so it must not block an executor
/// thread.
fn spawn(mut reader: Box<dyn Read + Send>) -> io::Result<Source> {
    let (request_sender, requests) = std::sync::mpsc::channel();
    let (chunk_sender, chunks) = mpsc::channel(1);
    let read = move || {
        while requests.recv().is_ok() {
            let mut chunk = vec![0; CHUNK_SIZE];
            let read = loop {
                match reader.read(&mut chunk) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    other => break other,
                }
            };
            let read = read.map(|count| {
                chunk.truncate(count);
                chunk
            });
            if chunk_sender.blocking_send(read).is_err() {
                break;
            }
        }
    };
    std::thread::Builder::new().name("codebox-stdin".into()).stack_size(128 << 10).spawn(read)?;
    Ok(Source::Reading { request_sender, chunks })
}
