//! The connection to an agent, which the engine carries.

use std::pin::Pin;

use bollard::container::{AttachContainerResults, LogOutput};
use codebox_agent::frame::Decoder;
use codebox_agent::{Order, Word};
use futures_util::{Stream, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::error::{ContainerError, one_line};

mod tells;

pub(crate) use tells::Tells;

/// The operation in error messages.
const CARRY: &str = "forward the container's streams";

/// Most bytes kept of the agent's standard error, which holds the reason for its end.
const MAX_COMPLAINT: usize = 4096;

/// Both directions of an attached container. A sender must continue to read, because an engine may carry one direction
/// only while the other is read.
pub(crate) struct Talk {
    pub hears: Hears,
    pub tells: Tells,
}

/// The agent's events.
pub(crate) struct Hears {
    output: Pin<Box<dyn Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>,
    decoder: Decoder,
    complaint: Vec<u8>,
}

impl Talk {
    pub(crate) fn over(attached: AttachContainerResults) -> Self {
        let AttachContainerResults { output, input } = attached;
        Self::of(output, input)
    }

    fn of(
        output: Pin<Box<dyn Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>,
        input: Pin<Box<dyn AsyncWrite + Send>>,
    ) -> Self {
        let hears = Hears { output, decoder: Decoder::new(Word::LONGEST), complaint: Vec::new() };
        Self { hears, tells: Tells::to(input) }
    }

    /// Creates a connection to an agent through another process, which forwards both directions.
    pub(crate) fn through(line: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
        let (output, input) = tokio::io::split(line);
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
        Self::of(Box::pin(output), Box::pin(input))
    }

    /// Forwards the connection for another process, until that process closes it.
    pub(crate) async fn carry(&mut self, line: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
        let Self { hears: Hears { output, .. }, tells } = self;
        let input = tells.input();
        let (mut from, mut to) = tokio::io::split(line);
        let orders = async {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(count @ 1..) = from.read(&mut buffer).await {
                // An agent that has ended accepts no requests, but the other process may still want to know how the
                // agent ended.
                let _ = input.write_all(&buffer[..count]).await;
                let _ = input.flush().await;
            }
        };
        let words = async {
            while let Some(Ok(said)) = output.next().await {
                if let LogOutput::StdOut { message } | LogOutput::Console { message } = said {
                    // A process that no longer reads closes the connection.
                    let _ = to.write_all(&message).await;
                }
            }
        };
        let mut orders = std::pin::pin!(orders);
        tokio::select! {
            () = &mut orders => return,
            () = words => {}
        }
        let _ = to.shutdown().await;
        orders.await;
    }

    /// Returns the agent's next event, or `None` at the end of the connection. Cancel safe.
    pub(crate) async fn word(&mut self) -> Result<Option<Word>, ContainerError> {
        self.hears.word().await
    }

    /// Sends a request to the agent, and waits until it is written.
    pub(crate) async fn order(&mut self, order: &Order) -> Result<(), ContainerError> {
        self.tells.tell(order);
        while !self.tells.is_done() {
            self.tells.told().await?;
        }
        Ok(())
    }

    /// Returns the error for a connection that ended too early; see [`Hears::broken`].
    pub(crate) fn broken(&self, doing: &'static str, how: &str) -> ContainerError {
        self.hears.broken(doing, how)
    }
}

impl Hears {
    /// Returns the agent's next event, or `None` at the end of the connection. Cancel safe.
    pub(crate) async fn word(&mut self) -> Result<Option<Word>, ContainerError> {
        loop {
            match self.decoder.next_frame() {
                // The agent and its host are from one build, so the data was changed on the way.
                Err(error) => return Err(garbled(error.to_string())),
                Ok(Some(frame)) => {
                    let kind = frame.kind;
                    let none = || garbled(format!("malformed frame of kind {kind}"));
                    return Word::decode(frame).map(Some).ok_or_else(none);
                }
                Ok(None) => {}
            }
            match self.output.next().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(ContainerError::call(CARRY)(error)),
                Some(Ok(LogOutput::StdErr { message })) => {
                    let room = MAX_COMPLAINT.saturating_sub(self.complaint.len());
                    self.complaint.extend(message.iter().take(room));
                }
                Some(Ok(LogOutput::StdOut { message })) => self.decoder.push(&message),
                // Without a terminal, these are bytes of an incomplete stream header or chunk of the engine. They are
                // not events.
                Some(Ok(LogOutput::Console { .. })) => return Err(garbled("incomplete stream header".to_owned())),
                Some(Ok(LogOutput::StdIn { .. })) => {}
            }
        }
    }

    /// Returns the error for a connection that ended too early. An agent that exits by itself gives the reason on its
    /// standard error; a broken connection does not.
    pub(crate) fn broken(&self, doing: &'static str, how: &str) -> ContainerError {
        let complaint = one_line(&String::from_utf8_lossy(&self.complaint));
        match complaint.as_str() {
            "" => ContainerError::Lost { doing, source: format!("connection to the agent closed: {how}").into() },
            complaint => ContainerError::Agent(format!("{how}: {complaint}")),
        }
    }
}

/// Returns the error for data that differs from what the agent has sent.
fn garbled(why: String) -> ContainerError {
    ContainerError::Lost { doing: CARRY, source: why.into() }
}
