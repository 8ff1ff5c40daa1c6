//! The connection to an agent, which the engine carries.

use std::pin::Pin;

use bollard::container::{AttachContainerResults, LogOutput};
use codebox_agent::frame::Decoder;
use codebox_agent::{Event, Request};
use futures_util::{Stream, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::error::{ContainerError, one_line};

mod write_queue;

pub(crate) use write_queue::WriteQueue;

/// The operation in error messages.
const OPERATION: &str = "forward the container's streams";

/// Most bytes kept of the agent's standard error, which holds the reason for its end.
const MAX_STDERR_SIZE: usize = 4096;

/// Both directions of an attached container. A sender must continue to read, because an engine may carry one direction
/// only while the other is read.
pub(crate) struct AgentConnection {
    pub event_reader: EventReader,
    pub write_queue: WriteQueue,
}

/// The agent's events.
pub(crate) struct EventReader {
    output: Pin<Box<dyn Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>,
    decoder: Decoder,
    stderr: Vec<u8>,
}

impl AgentConnection {
    pub(crate) fn from_attached(attached: AttachContainerResults) -> Self {
        let AttachContainerResults { output, input } = attached;
        Self::from_streams(output, input)
    }

    /// Creates a connection that has ended.
    pub(crate) fn closed() -> Self {
        Self::from_streams(Box::pin(futures_util::stream::empty()), Box::pin(tokio::io::sink()))
    }

    /// Creates a connection to an agent that the engine has started in a running container.
    pub(crate) fn from_streams(
        output: Pin<Box<dyn Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>,
        input: Pin<Box<dyn AsyncWrite + Send>>,
    ) -> Self {
        let event_reader = EventReader { output, decoder: Decoder::new(Event::MAX_PAYLOAD_SIZE), stderr: Vec::new() };
        Self { event_reader, write_queue: WriteQueue::to(input) }
    }

    /// Creates a connection to an agent through another process, which forwards both directions.
    pub(crate) fn from_socket(socket: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
        let (output, input) = tokio::io::split(socket);
        let output = futures_util::stream::unfold(output, async |mut output| {
            let mut buffer = vec![0; 64 << 10];
            match output.read(&mut buffer).await {
                Ok(0) => None,
                Ok(count) => {
                    buffer.truncate(count);
                    Some((Ok(LogOutput::StdOut { message: buffer.into() }), output))
                }
                Err(error) => Some((Err(error.into()), output)),
            }
        });
        Self::from_streams(Box::pin(output), Box::pin(input))
    }

    /// Forwards the connection for another process, until that process closes it.
    pub(crate) async fn forward(&mut self, socket: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
        let Self { event_reader: EventReader { output, .. }, write_queue } = self;
        let input = write_queue.input();
        let (mut from, mut to) = tokio::io::split(socket);
        let requests = async {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(count @ 1..) = from.read(&mut buffer).await {
                // An agent that has ended accepts no requests, but the other process may still want to know how the
                // agent ended.
                let _ = input.write_all(&buffer[..count]).await;
                let _ = input.flush().await;
            }
        };
        let events = async {
            while let Some(Ok(chunk)) = output.next().await {
                if let LogOutput::StdOut { message } | LogOutput::Console { message } = chunk {
                    // A process that no longer reads closes the connection.
                    let _ = to.write_all(&message).await;
                }
            }
        };
        let mut requests = std::pin::pin!(requests);
        tokio::select! {
            () = &mut requests => return,
            () = events => {}
        }
        let _ = to.shutdown().await;
        requests.await;
    }

    /// Returns the agent's next event, or `None` at the end of the connection. Cancel safe.
    pub(crate) async fn event(&mut self) -> Result<Option<Event>, ContainerError> {
        self.event_reader.event().await
    }

    /// Sends a request to the agent, and waits until it is written.
    pub(crate) async fn request(&mut self, request: &Request) -> Result<(), ContainerError> {
        self.write_queue.enqueue(request);
        while !self.write_queue.is_done() {
            self.write_queue.written().await?;
        }
        Ok(())
    }

    /// Closes the direction to the agent, and waits until the agent has closed the other one.
    pub(crate) async fn finish(self) {
        let Self { mut event_reader, mut write_queue } = self;
        let _ = write_queue.input().shutdown().await;
        while let Some(Ok(_)) = event_reader.output.next().await {}
    }

    /// Returns the error for a connection that ended too early; see [`EventReader::early_end_error`].
    pub(crate) fn early_end_error(&self, doing: &'static str, how: &str) -> ContainerError {
        self.event_reader.early_end_error(doing, how)
    }
}

impl EventReader {
    /// Returns the agent's next event, or `None` at the end of the connection. Cancel safe.
    pub(crate) async fn event(&mut self) -> Result<Option<Event>, ContainerError> {
        loop {
            match self.decoder.next_frame() {
                // The agent and its host are from one build, so the data was changed in transit.
                Err(error) => return Err(corrupt_stream_error(error.to_string())),
                Ok(Some(frame)) => {
                    let kind = frame.kind;
                    let none = || corrupt_stream_error(format!("malformed frame of kind {kind}"));
                    return Event::decode(frame).map(Some).ok_or_else(none);
                }
                Ok(None) => {}
            }
            match self.output.next().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(ContainerError::call(OPERATION)(error)),
                Some(Ok(LogOutput::StdErr { message })) => {
                    let capacity = MAX_STDERR_SIZE.saturating_sub(self.stderr.len());
                    self.stderr.extend(message.iter().take(capacity));
                }
                Some(Ok(LogOutput::StdOut { message })) => self.decoder.push(&message),
                // Without a terminal, these are bytes of an incomplete stream header or chunk of the engine. They are
                // not events.
                Some(Ok(LogOutput::Console { .. })) => {
                    return Err(corrupt_stream_error("incomplete stream header".to_owned()));
                }
                Some(Ok(LogOutput::StdIn { .. })) => {}
            }
        }
    }

    /// Returns the error for a connection that ended too early. An agent that exits by itself gives the reason on its
    /// standard error; a broken connection does not.
    pub(crate) fn early_end_error(&self, doing: &'static str, how: &str) -> ContainerError {
        let stderr = one_line(&String::from_utf8_lossy(&self.stderr));
        match stderr.as_str() {
            "" => ContainerError::Lost { doing, source: format!("connection to the agent closed: {how}").into() },
            stderr => ContainerError::Agent(format!("{how}: {stderr}")),
        }
    }
}

/// Returns the error for data that differs from what the agent has sent.
fn corrupt_stream_error(why: String) -> ContainerError {
    ContainerError::Lost { doing: OPERATION, source: why.into() }
}
