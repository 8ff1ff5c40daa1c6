//! Cells of a client, whose tools are called by the client.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codebox_core::{
    BoxFuture, CancelToken, Effects, ExecIo, OutputSink, RunTools, ToolCalls, ToolDescription, ToolFailure, ToolResult,
};
use codebox_runner::{Cell, Resumption};
use serde_bytes::ByteBuf;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{mpsc, oneshot};

use crate::connection::{AnswerSink, QUEUED, Requests, send};
use crate::message::{Answer, Request};
use crate::serve::Process;

/// A cell to run.
pub(crate) enum Work {
    /// A new one. With data of the client, it can be suspended.
    Cell(Box<Cell>, Option<String>),
    /// The one that is suspended, with the decision about the call at this position.
    Suspended(u64, Resumption),
}

/// Runs a cell, and passes its output and its calls of tools on. `None` if the client is gone, which cancels the cell.
pub(crate) async fn exec(
    process: &Process,
    id: &str,
    work: Work,
    tools: Option<Vec<ToolDescription>>,
    requests: &mut Requests,
    writer: &mut OwnedWriteHalf,
) -> Option<Answer> {
    let (sender, mut output) = mpsc::channel(QUEUED);
    let sink = |stream| Some(Box::new(AnswerSink { stream, sender: sender.clone() }) as Box<dyn OutputSink>);
    let cancel = CancelToken::new();
    let waiting = Arc::<Waiting>::default();
    let tools = tools.map(|list| {
        let (waiting, answers) = (Arc::clone(&waiting), Some(sender.downgrade()));
        Arc::new(ClientTools { list, answers, waiting })
    });
    let of_cell = tools.clone().map(|tools| tools as RunTools);
    let mut io = ExecIo { stdout: sink(0), stderr: sink(1), cancel: cancel.clone(), tools: of_cell, ..ExecIo::none() };
    drop(sender);
    let mut running = std::pin::pin!(async {
        let keeper = &process.keeper;
        let ran = match (work, tools) {
            (Work::Cell(cell, Some(client)), Some(tools)) => {
                keeper.exec_suspendable(id, *cell, client, tools, &mut io).await
            }
            (Work::Cell(cell, _), _) => keeper.exec(id, *cell, &mut io).await,
            (Work::Suspended(position, resumption), tools) => {
                keeper.resume(id, position, resumption, tools.unwrap_or_default(), &mut io).await
            }
        };
        // The sinks end with the streams.
        (io.stdout, io.stderr) = (None, None);
        ran
    });
    // The cell goes on, within its time limit, while the client does not read.
    let mut forwarding = std::pin::pin!(async {
        while let Some(answer) = output.recv().await {
            if send(writer, &answer).await.is_err() {
                return false;
            }
        }
        true
    });
    let (mut is_gone, mut is_forwarded, mut is_cancelled) = (false, false, false);
    let ran = loop {
        tokio::select! {
            biased;
            is_complete = &mut forwarding, if !is_forwarded => {
                is_forwarded = true;
                if !is_complete {
                    is_gone = true;
                    cancel.cancel();
                }
            }
            ran = &mut running => break ran,
            request = requests.next(), if !is_cancelled => match request {
                Ok(Some(Request::ToolResult(number, result))) => waiting.end(number, result.map(ByteBuf::into_vec)),
                request => {
                    is_cancelled = true;
                    // A client that sends another request meanwhile does not follow the protocol.
                    is_gone |= !matches!(request, Ok(Some(Request::Cancel)));
                    cancel.cancel();
                }
            },
        }
    };
    if !is_gone && !is_forwarded {
        is_gone = !forwarding.await;
    }
    (!is_gone).then(|| match ran {
        Ok(report) => Answer::Ended(Box::new(report)),
        Err(error) => Answer::Failed(error.into()),
    })
}

/// Calls whose results the client has not sent.
#[derive(Default)]
struct Waiting(Mutex<BTreeMap<u64, oneshot::Sender<ToolResult>>>);

impl Waiting {
    /// Waits for the result of a new call, and returns its number. Numbers are not used again: a result can arrive when its cell has ended.
    fn start(&self) -> (u64, oneshot::Receiver<ToolResult>) {
        static NEXT: AtomicU64 = AtomicU64::new(0);

        let (sender, result) = oneshot::channel();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, sender);
        (number, result)
    }

    fn end(&self, number: u64, result: ToolResult) {
        if let Some(sender) = self.lock().remove(&number) {
            // The cell may no longer wait.
            let _ = sender.send(result);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, oneshot::Sender<ToolResult>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tools of a client.
#[derive(Default)]
pub(crate) struct ClientTools {
    list: Vec<ToolDescription>,
    answers: Option<mpsc::WeakSender<Answer>>,
    waiting: Arc<Waiting>,
}

impl ClientTools {
    /// Requests a call from the client.
    pub(crate) fn request(&self, name: &str, input: Vec<u8>, is_approved: bool) -> BoxFuture<'static, ToolResult> {
        let (name, waiting, answers) = (name.to_owned(), Arc::clone(&self.waiting), self.answers.clone());
        Box::pin(async move {
            let gone = || ToolFailure::new(ToolFailure::FAILED, "the client that has the tools is gone");
            let answers = answers.and_then(|answers| answers.upgrade()).ok_or_else(gone)?;
            let (number, result) = waiting.start();
            let call = Answer::ToolCall { number, name, input: ByteBuf::from(input), is_approved };
            answers.send(call).await.map_err(|_| gone())?;
            drop(answers);
            result.await.unwrap_or_else(|_| Err(gone()))
        })
    }
}

impl ToolCalls for ClientTools {
    fn list(&self) -> Vec<ToolDescription> {
        self.list.clone()
    }

    fn call(&self, name: &str, input: Vec<u8>, _: Effects) -> BoxFuture<'static, ToolResult> {
        self.request(name, input, false)
    }
}
