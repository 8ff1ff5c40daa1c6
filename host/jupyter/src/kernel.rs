//! The kernel: requests of clients, one after the other, and those that do not wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codebox_core::{Adapter, CancelToken, Language, RunReport};
use codebox_runner::Session;
use jupyter_protocol::{
    CommInfoReply, CompleteReply, CompleteRequest, ErrorOutput, HistoryReply, InspectReply, InspectRequest,
    InterruptReply, IsCompleteReply, JupyterMessage, JupyterMessageContent, KernelInfoReply, MediaType, ReplyStatus,
    ShutdownReply, Status, UnknownMessage,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use crate::channels::{Channels, ConnectionFile, JupyterError, Replies, Requests, beat, receive};
use crate::execution::Execution;
use crate::input::Inputs;
use crate::interactive::{complete_cell, completions_of, describe_cell, description_of};
use crate::publication::{Publication, Publisher, publications, publish};
use crate::{is_complete, language};

/// Version of the protocol.
const PROTOCOL: &str = "5.3";

/// Function that describes the end of a cell in lines.
pub type Describe = Box<dyn Fn(&RunReport) -> Vec<String> + Send + Sync>;

/// Options of a kernel.
pub struct Options {
    /// Language of the cells, which is that of the session.
    pub language: Language,
    /// Version of the language.
    pub version: String,
    /// Lines about the end of a cell for people, such as the limit that has ended it.
    pub describe: Describe,
}

/// Interruption and end of a kernel from outside of the protocol.
#[derive(Debug, Clone)]
pub struct Stop {
    current: Arc<Mutex<Current>>,
    ended: Arc<watch::Sender<bool>>,
}

/// Cell that can be interrupted.
#[derive(Debug, Default)]
struct Current {
    token: CancelToken,
    /// True while requests are served.
    is_busy: bool,
    /// True if an interruption has arrived since the last cell has started.
    is_pending: bool,
}

impl Default for Stop {
    fn default() -> Self {
        Self { current: Arc::default(), ended: Arc::new(watch::Sender::new(false)) }
    }
}

impl Stop {
    /// Cancels the current cell. If a request is served that has not reached its cell, the cell is cancelled before it starts.
    pub fn interrupt(&self) {
        let mut current = self.lock();
        current.is_pending = current.is_busy;
        current.token.cancel();
    }

    /// Ends the kernel.
    pub fn end(&self) {
        self.ended.send_replace(true);
        self.interrupt();
    }

    /// Returns the token of the next cell.
    pub(crate) fn next(&self) -> CancelToken {
        let mut current = self.lock();
        current.token = CancelToken::new();
        if std::mem::take(&mut current.is_pending) {
            current.token.cancel();
        }
        current.token.clone()
    }

    /// Notes that the kernel serves requests, or waits for one.
    fn set_busy(&self, is_busy: bool) {
        let mut current = self.lock();
        (current.is_busy, current.is_pending) = (is_busy, current.is_pending && is_busy);
    }

    /// Forgets an interruption that the cell has received.
    pub(crate) fn received(&self) {
        self.lock().is_pending = false;
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ended(&self) {
        // The sender lives as long as this value.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }
}

/// Serves clients until one of them ends the kernel, or `stop` does. Requires a tokio runtime with time and network enabled, and several
/// threads.
///
/// The state of the session is saved after each cell, so that a cell that is interrupted or exceeds a limit is without effect on it.
///
/// # Errors
/// Returns an error if the sockets cannot be opened.
pub async fn serve(
    connection: &ConnectionFile,
    session: Session,
    options: Options,
    stop: Stop,
) -> Result<(), JupyterError> {
    let id = uuid::Uuid::new_v4().to_string();
    let Channels { shell: (replies, requests), control, stdin, iopub, heartbeat } =
        Channels::open(connection, &id).await?;
    let (publisher, queue) = publications();
    let publishing = tokio::spawn(publish(iopub, queue));
    let beating = tokio::spawn(beat(heartbeat));
    let info = Arc::new(kernel_info(&options));
    let starting = JupyterMessage::new(Status::starting(), None);
    let _ = publisher.send(Publication::Message(Box::new(starting))).await;
    let controlling = tokio::spawn(control_requests(control, publisher.clone(), Arc::clone(&info), stop.clone()));
    let (queued, waiting) = unbounded_channel();
    let reading = tokio::spawn(read_requests(requests, queued));
    let execution = Execution::new(session, options, publisher.clone(), Inputs::serve(stdin), stop.clone());
    let mut kernel = Kernel { execution, publisher, replies, waiting, stop: stop.clone(), info };
    tokio::select! {
        () = kernel.serve() => {}
        () = stop.ended() => {}
    }
    for task in [beating, controlling, reading] {
        task.abort();
    }
    let Kernel { execution, publisher, .. } = kernel;
    execution.close().await;
    drop(publisher);
    // Published messages reach the clients, unless they are gone.
    let _ = tokio::time::timeout(std::time::Duration::from_secs(1), publishing).await;
    Ok(())
}

/// Receives requests before they are served, so that those behind a cell that fails are known.
async fn read_requests(mut from: Requests, queue: UnboundedSender<JupyterMessage>) {
    while let Some(request) = receive(&mut from).await {
        if queue.send(request).is_err() {
            return;
        }
    }
}

/// Serves the requests that do not wait for cells.
async fn control_requests(
    (mut replies, mut requests): (Replies, Requests),
    publisher: Publisher,
    info: Arc<KernelInfoReply>,
    stop: Stop,
) {
    while let Some(request) = receive(&mut requests).await {
        let busy = Busy::start(&publisher, &request).await;
        let reply: Option<JupyterMessageContent> = match &request.content {
            JupyterMessageContent::KernelInfoRequest(_) => Some(KernelInfoReply::clone(&info).into()),
            JupyterMessageContent::InterruptRequest(_) => {
                stop.interrupt();
                Some(InterruptReply::new().into())
            }
            JupyterMessageContent::ShutdownRequest(shutdown) => {
                Some(ShutdownReply { restart: shutdown.restart, ..ShutdownReply::default() }.into())
            }
            content => unsupported(content.message_type()),
        };
        if let Some(reply) = reply {
            let _ = replies.send(JupyterMessage::new(reply, Some(&request))).await;
        }
        busy.end().await;
        if matches!(request.content, JupyterMessageContent::ShutdownRequest(_)) {
            stop.end();
        }
    }
}

/// Returns the reply to a request that this kernel does not support; `None` for messages without a reply.
fn unsupported(kind: &str) -> Option<JupyterMessageContent> {
    let name = kind.strip_suffix("_request")?;
    let content = serde_json::json!({
        "status": "error", "ename": "NotImplementedError", "evalue": format!("the kernel has no {name}"), "traceback": [],
    });
    Some(UnknownMessage { msg_type: format!("{name}_reply"), content }.into())
}

/// Status of the kernel while it serves a request.
pub(crate) struct Busy<'b> {
    publisher: &'b Publisher,
    request: &'b JupyterMessage,
}

impl<'b> Busy<'b> {
    async fn start(publisher: &'b Publisher, request: &'b JupyterMessage) -> Self {
        let busy = Self { publisher, request };
        busy.publish(Status::busy()).await;
        busy
    }

    async fn end(self) {
        self.publish(Status::idle()).await;
    }

    async fn publish(&self, status: Status) {
        let message = status.as_child_of(self.request);
        // Without a receiver, the kernel ends.
        let _ = self.publisher.send(Publication::Message(Box::new(message))).await;
    }
}

fn kernel_info(options: &Options) -> KernelInfoReply {
    let version = env!("CARGO_PKG_VERSION");
    KernelInfoReply {
        status: ReplyStatus::Ok,
        protocol_version: PROTOCOL.to_owned(),
        implementation: "codebox".to_owned(),
        implementation_version: version.to_owned(),
        language_info: language::info(&options.language, &options.version),
        banner: format!("codebox {version}: {} {} in a sandbox", options.language, options.version),
        help_links: Vec::new(),
        debugger: false,
        error: None,
    }
}

/// Kernel that serves its clients.
struct Kernel {
    execution: Execution,
    publisher: Publisher,
    replies: Replies,
    waiting: UnboundedReceiver<JupyterMessage>,
    stop: Stop,
    info: Arc<KernelInfoReply>,
}

impl Kernel {
    async fn serve(&mut self) {
        loop {
            let request = match self.waiting.try_recv() {
                Ok(request) => request,
                Err(_) => {
                    self.stop.set_busy(false);
                    let Some(request) = self.waiting.recv().await else { return };
                    request
                }
            };
            self.stop.set_busy(true);
            let publisher = self.publisher.clone();
            let busy = Busy::start(&publisher, &request).await;
            let (reply, has_failed) = self.reply(&request).await;
            // A client that has the reply may send the next cell, which is not refused.
            let behind = if has_failed { self.waiting_requests() } else { Vec::new() };
            if let Some(reply) = reply {
                let _ = self.replies.send(JupyterMessage::new(reply, Some(&request))).await;
            }
            busy.end().await;
            self.abort(behind).await;
            self.execution.save().await;
        }
    }

    /// Returns the requests that have arrived.
    fn waiting_requests(&mut self) -> Vec<JupyterMessage> {
        std::iter::from_fn(|| self.waiting.try_recv().ok()).collect()
    }

    /// Refuses the cells behind one that has failed. Of the other requests, those that need an interpreter have an empty reply.
    async fn abort(&mut self, behind: Vec<JupyterMessage>) {
        for request in behind {
            let busy = Busy::start(&self.publisher, &request).await;
            let reply = match matches!(request.content, JupyterMessageContent::ExecuteRequest(_)) {
                true => Some(
                    UnknownMessage {
                        msg_type: "execute_reply".to_owned(),
                        content: serde_json::json!({"status": "aborted"}),
                    }
                    .into(),
                ),
                false => self.immediate_reply(&request),
            };
            if let Some(reply) = reply {
                let _ = self.replies.send(JupyterMessage::new(reply, Some(&request))).await;
            }
            busy.end().await;
        }
    }

    /// Serves a request. Returns the reply, and true if the cells behind it must not run.
    async fn reply(&mut self, request: &JupyterMessage) -> (Option<JupyterMessageContent>, bool) {
        match &request.content {
            JupyterMessageContent::ExecuteRequest(cell) => {
                let (reply, has_failed) = Box::pin(self.execution.run(request, cell)).await;
                (Some(reply.into()), has_failed && cell.stop_on_error)
            }
            JupyterMessageContent::CompleteRequest(complete) => (Some(self.complete(complete).await.into()), false),
            JupyterMessageContent::InspectRequest(inspect) => (Some(self.inspect(inspect).await.into()), false),
            _ => (self.immediate_reply(request), false),
        }
    }

    /// Returns the reply to a request that needs no interpreter.
    fn immediate_reply(&self, request: &JupyterMessage) -> Option<JupyterMessageContent> {
        Some(match &request.content {
            JupyterMessageContent::KernelInfoRequest(_) => KernelInfoReply::clone(&self.info).into(),
            JupyterMessageContent::IsCompleteRequest(text) => {
                let is_python = self.execution.language().adapter() == Some(Adapter::Python);
                match is_complete(&text.code, is_python) {
                    true => IsCompleteReply::complete(),
                    false => IsCompleteReply::incomplete(indentation(&text.code, is_python)),
                }
                .into()
            }
            JupyterMessageContent::HistoryRequest(_) => HistoryReply::new(Vec::new()).into(),
            JupyterMessageContent::CommInfoRequest(_) => CommInfoReply::default().into(),
            JupyterMessageContent::CompleteRequest(complete) => CompleteReply {
                cursor_start: complete.cursor_pos,
                cursor_end: complete.cursor_pos,
                ..CompleteReply::default()
            }
            .into(),
            JupyterMessageContent::InspectRequest(_) => InspectReply::default().into(),
            content => return unsupported(content.message_type()),
        })
    }

    async fn complete(&mut self, CompleteRequest { code, cursor_pos }: &CompleteRequest) -> CompleteReply {
        let cell = complete_cell(self.execution.language(), code, *cursor_pos);
        let found = self.execution.query(cell).await;
        let found = found.and_then(|stdout| completions_of(&stdout, code, *cursor_pos)).unwrap_or_default();
        let (cursor_start, cursor_end) = match found.matches.is_empty() {
            true => (*cursor_pos, *cursor_pos),
            false => (found.start, found.end),
        };
        CompleteReply { matches: found.matches, cursor_start, cursor_end, ..CompleteReply::default() }
    }

    async fn inspect(&mut self, InspectRequest { code, cursor_pos, .. }: &InspectRequest) -> InspectReply {
        let cell = describe_cell(self.execution.language(), code, *cursor_pos);
        match self.execution.query(cell).await.as_deref().and_then(description_of) {
            Some(text) => InspectReply { found: true, data: MediaType::Plain(text).into(), ..InspectReply::default() },
            None => InspectReply::default(),
        }
    }
}

/// Returns the indentation of the line after an incomplete text.
fn indentation(text: &str, is_python: bool) -> String {
    let Some(last) = text.lines().last() else { return String::new() };
    let own: String = last.chars().take_while(|c| c.is_whitespace()).collect();
    let opens = last.trim_end().ends_with(if is_python { [':', '('] } else { ['{', '('] });
    let step = if is_python { "    " } else { "  " };
    if opens { own + step } else { own }
}

/// Returns the message of an error for all clients.
pub(crate) fn error_output(name: &str, value: &str, traceback: Vec<String>) -> ErrorOutput {
    ErrorOutput { ename: name.to_owned(), evalue: value.to_owned(), traceback }
}
