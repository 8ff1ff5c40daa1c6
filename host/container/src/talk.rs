//! The line to an agent, carried by the engine.

use std::pin::Pin;

use bollard::container::{AttachContainerResults, LogOutput};
use codebox_agent::frame::Decoder;
use codebox_agent::{Order, Word};
use futures_util::{Stream, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::error::{ContainerError, one_line};

mod tells;

pub(crate) use tells::Tells;

/// What the line is for, in errors.
const CARRY: &str = "carry its streams";

/// Most bytes kept of what the agent says on its standard error, which is why it ended.
const MAX_COMPLAINT: usize = 4096;

/// Both directions of an attached container. Whoever speaks goes on hearing: an engine may carry one direction only as long
/// as somebody takes the other.
pub(crate) struct Talk {
    pub hears: Hears,
    pub tells: Tells,
}

/// What the agent says.
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
        Self::of(Box::pin(output), Box::pin(input))
    }

    /// Carries the line on for somebody else, until that one ends it.
    pub(crate) async fn carry(&mut self, line: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
        let Self { hears: Hears { output, .. }, tells } = self;
        let input = tells.input();
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
        self.hears.word().await
    }

    /// Tells the agent something, and waits until it is on its way.
    pub(crate) async fn order(&mut self, order: &Order) -> Result<(), ContainerError> {
        self.tells.tell(order);
        while !self.tells.is_done() {
            self.tells.told().await?;
        }
        Ok(())
    }

    /// Why the line ended before its time; see [`Hears::broken`].
    pub(crate) fn broken(&self, doing: &'static str, how: &str) -> ContainerError {
        self.hears.broken(doing, how)
    }
}

impl Hears {
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
