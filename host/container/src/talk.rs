//! The line to an agent, carried by the engine.

use std::pin::Pin;

use bollard::container::{AttachContainerResults, LogOutput};
use codebox_agent::frame::Decoder;
use codebox_agent::{Order, Word};
use futures_util::{Stream, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::engine::PATIENCE;
use crate::error::{ContainerError, one_line};

/// What the line is for, in errors.
const CARRY: &str = "carry its streams";

/// Most bytes kept of what the agent says on its standard error, which is why it ended.
const MAX_COMPLAINT: usize = 4096;

/// Both directions of an attached container.
pub(crate) struct Talk {
    output: Pin<Box<dyn Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>,
    input: Pin<Box<dyn AsyncWrite + Send>>,
    decoder: Decoder,
    complaint: Vec<u8>,
}

impl Talk {
    pub(crate) fn over(attached: AttachContainerResults) -> Self {
        let AttachContainerResults { output, input } = attached;
        Self { output, input, decoder: Decoder::new(Word::LONGEST), complaint: Vec::new() }
    }

    /// A line that somebody else carries on, in both directions.
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
        Self {
            output: Box::pin(output),
            input: Box::pin(input),
            decoder: Decoder::new(Word::LONGEST),
            complaint: Vec::new(),
        }
    }

    /// Carries the line on for somebody else, until that one ends it.
    pub(crate) async fn carry(&mut self, line: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
        let Self { output, input, .. } = self;
        let (mut from, mut to) = tokio::io::split(line);
        let orders = async {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(count @ 1..) = from.read(&mut buffer).await {
                // An agent that is gone takes no orders; whoever gives them may still want to know what became of it.
                let _ = input.write_all(&buffer[..count]).await;
                let _ = input.flush().await;
            }
        };
        let words = async {
            while let Some(Ok(said)) = output.next().await {
                if let LogOutput::StdOut { message } | LogOutput::Console { message } = said {
                    // Somebody who does not listen any more ends the line.
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

    /// The agent's next word; nothing when the line has ended. The wait can be given up and taken up again.
    pub(crate) async fn word(&mut self) -> Result<Option<Word>, ContainerError> {
        loop {
            match self.decoder.next_frame() {
                // The agent and its host are of one build: whoever carries their words changed them.
                Err(error) => return Err(garbled(error.to_string())),
                Ok(Some(frame)) => {
                    let kind = frame.kind;
                    let none = || garbled(format!("a frame of kind {kind} is no word"));
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
                // There is no terminal, so these are the bytes of a mark or a piece that broke off; they are no words.
                Some(Ok(LogOutput::Console { .. })) => return Err(garbled("it broke off in a piece".to_owned())),
                Some(Ok(LogOutput::StdIn { .. })) => {}
            }
        }
    }

    /// Tells the agent something. One that does not take it in time is not listening any more.
    pub(crate) async fn order(&mut self, order: &Order) -> Result<(), ContainerError> {
        let frame = order.encode();
        let sent = timeout(PATIENCE, async {
            self.input.write_all(&frame).await?;
            self.input.flush().await
        });
        let lost = |source: codebox_core::BoxedError| ContainerError::Lost { doing: "carry an order", source };
        match sent.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(lost(Box::new(error))),
            Err(late) => Err(lost(Box::new(late))),
        }
    }

    /// Why the line ended before its time: an agent that ends by itself says why, and a line that is cut does not.
    pub(crate) fn broken(&self, doing: &'static str, how: &str) -> ContainerError {
        let complaint = one_line(&String::from_utf8_lossy(&self.complaint));
        match complaint.as_str() {
            "" => ContainerError::Lost { doing, source: format!("the line to its agent broke off, and {how}").into() },
            complaint => ContainerError::Agent(format!("{how}: {complaint}")),
        }
    }
}

/// What came over the line was not what the agent said.
fn garbled(why: String) -> ContainerError {
    ContainerError::Lost { doing: CARRY, source: why.into() }
}
