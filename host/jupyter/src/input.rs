//! Standard input of cells, which clients answer.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use codebox_core::{InputMode, InputModes};
use jupyter_protocol::{InputRequest, JupyterMessage, JupyterMessageContent};
use tokio::sync::mpsc::UnboundedSender;

use crate::channels::{Replies, Requests, receive};

/// Requests for input, sent to the client whose cell reads.
#[derive(Clone)]
pub(crate) struct Inputs {
    requests: UnboundedSender<JupyterMessage>,
    /// Receiver of the next line.
    waiting: Arc<Mutex<Option<Sender<String>>>>,
    /// True while the client does not show what is typed.
    is_hidden: Arc<AtomicBool>,
}

/// The client hides passwords, and has lines in the other modes.
impl InputModes for Inputs {
    fn set(&self, mode: InputMode) {
        self.is_hidden.store(mode == InputMode::Hidden, Ordering::Relaxed);
    }
}

impl Inputs {
    /// Serves the socket for input.
    pub(crate) fn serve((mut replies, mut from): (Replies, Requests)) -> Self {
        let (requests, mut queue) = tokio::sync::mpsc::unbounded_channel::<JupyterMessage>();
        tokio::spawn(async move {
            while let Some(request) = queue.recv().await {
                // A client that is gone does not answer, and the cell waits until it is interrupted.
                let _ = replies.send(request).await;
            }
        });
        let waiting: Arc<Mutex<Option<Sender<String>>>> = Arc::default();
        let receiver = Arc::clone(&waiting);
        tokio::spawn(async move {
            while let Some(message) = receive(&mut from).await {
                let JupyterMessageContent::InputReply(reply) = message.content else { continue };
                let waiting = receiver.lock().unwrap_or_else(PoisonError::into_inner).take();
                // A reply without a request is dropped.
                if let Some(line) = waiting {
                    let _ = line.send(reply.value);
                }
            }
        });
        Self { requests, waiting, is_hidden: Arc::default() }
    }

    /// Ends the wait for a line: the cell has ended.
    pub(crate) fn stop(&self) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.set(InputMode::Lines);
    }

    /// Returns the input of a cell.
    pub(crate) fn of(&self, request: JupyterMessage) -> CellInput {
        CellInput { inputs: self.clone(), request, line: Vec::new(), at: 0 }
    }

    fn request(&self, cell: &JupyterMessage) -> Receiver<String> {
        let (sender, line) = channel();
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        // The cell has written its prompt to standard output.
        let request = InputRequest { prompt: String::new(), password: self.is_hidden.load(Ordering::Relaxed) };
        let _ = self.requests.send(request.as_child_of(cell));
        line
    }
}

/// Standard input of a cell: each line is requested when the cell reads it.
pub(crate) struct CellInput {
    inputs: Inputs,
    request: JupyterMessage,
    line: Vec<u8>,
    at: usize,
}

impl Read for CellInput {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.line.len() {
            let Ok(line) = self.inputs.request(&self.request).recv() else { return Ok(0) };
            (self.line, self.at) = (format!("{line}\n").into_bytes(), 0);
        }
        let count = (&self.line[self.at..]).read(into)?;
        self.at += count;
        Ok(count)
    }
}
