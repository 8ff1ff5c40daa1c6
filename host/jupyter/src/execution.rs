//! Cells, which run one after the other in the session.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use codebox_blocks::{ipython_command, without_inline_magics};
use codebox_core::{Adapter, ExecIo, Language, MimeBundle, Outcome, ResultRole, RunReport, RunnerError, Stdin};
use codebox_runner::{Cell, Session};
use jupyter_protocol::{
    ExecuteInput, ExecuteReply, ExecuteRequest, ExecutionCount, ExpressionResult, JupyterMessage, ReplyError,
    ReplyStatus,
};

use crate::input::Inputs;
use crate::kernel::{Options, Stop, error_output};
use crate::outputs::{Outputs, RichSink, Shared, StreamSink, lock};
use crate::publication::Publisher;

/// Name of the state after the last cell.
const CHECKPOINT: &str = "cell";

/// Time after which a completion or a description is cancelled.
const QUERY_TIME: Duration = Duration::from_secs(2);

/// The session, and the number of its cells.
pub(crate) struct Execution {
    session: Session,
    options: Options,
    publisher: Publisher,
    inputs: Inputs,
    stop: Stop,
    count: usize,
    /// True if a cell has changed the state since it was saved.
    is_changed: bool,
    /// Number of the last cell whose effects are saved.
    saved: Option<usize>,
}

impl Execution {
    pub(crate) fn new(session: Session, options: Options, publisher: Publisher, inputs: Inputs, stop: Stop) -> Self {
        Self { session, options, publisher, inputs, stop, count: 0, is_changed: false, saved: None }
    }

    pub(crate) fn language(&self) -> &Language {
        &self.options.language
    }

    /// Runs a cell of a client. Returns the reply, and true if the cell has failed.
    pub(crate) async fn run(&mut self, request: &JupyterMessage, cell: &ExecuteRequest) -> (ExecuteReply, bool) {
        let is_silent = cell.silent;
        self.count += usize::from(!is_silent && cell.store_history);
        let count = ExecutionCount::new(self.count);
        let outputs = Outputs::shared(self.publisher.clone(), request.clone(), self.count, is_silent);
        let input = ExecuteInput { code: cell.code.clone(), execution_count: count };
        on_thread(&outputs, |outputs| outputs.publish(input)).await;
        let done = match cell.code.trim().is_empty() {
            // The interpreter need not start.
            true => Ok(None),
            false => self.exec(request, cell, &outputs).await.map(Some),
        };
        let failure = match &done {
            Ok(None) => None,
            Ok(Some(report)) => failure_of(report, &(self.options.describe)(report), &cell.code, &self.saved_state()),
            Err(error) => Some(refusal(error)),
        };
        let traceback = match &done {
            Ok(Some(report)) => report.error.as_ref().map(|error| error.traceback.join("\n")),
            _ => None,
        };
        let notes = match (&done, &failure) {
            (Ok(Some(report)), None) => (self.options.describe)(report),
            _ => Vec::new(),
        };
        let shown = failure.clone();
        on_thread(&outputs, move |outputs| {
            outputs.end(traceback.as_deref());
            notes.iter().for_each(|line| outputs.note(line));
            if let Some(ReplyError { ename, evalue, traceback }) = shown {
                outputs.publish(error_output(&ename, &evalue, traceback));
            }
        })
        .await;
        let expressions = match (&failure, &cell.user_expressions) {
            (None, Some(expressions)) if !expressions.is_empty() => {
                // One that ends the interpreter must not undo the cell.
                self.save().await;
                self.evaluate(expressions.iter()).await
            }
            _ => HashMap::default(),
        };
        let status = if failure.is_some() { ReplyStatus::Error } else { ReplyStatus::Ok };
        let has_failed = failure.is_some();
        let reply = ExecuteReply {
            status,
            execution_count: count,
            user_expressions: Some(expressions),
            error: failure.map(Box::new),
            ..ExecuteReply::default()
        };
        (reply, has_failed)
    }

    async fn exec(
        &mut self,
        request: &JupyterMessage,
        cell: &ExecuteRequest,
        outputs: &Shared,
    ) -> Result<RunReport, RunnerError> {
        // A session in a container has no standard input.
        let has_input = cell.allow_stdin && !self.session.is_in_container();
        let stdin = if has_input { Stdin::Streamed } else { Stdin::Empty };
        let sink = |stream| Some(Box::new(StreamSink(outputs.clone(), stream)) as _);
        let text = match self.options.language.adapter() {
            Some(Adapter::Python) => without_inline_magics(&cell.code),
            _ => cell.code.clone(),
        };
        let mut io = ExecIo {
            stdin: has_input.then(|| Box::new(self.inputs.of(request.clone())) as _),
            input_modes: has_input.then(|| Arc::new(self.inputs.clone()) as _),
            stdout: sink(0),
            stderr: sink(1),
            results: Some(Box::new(RichSink(outputs.clone()))),
            cancel: self.stop.next(),
            ..ExecIo::none()
        };
        // A cell that is not counted must not replace the lines of another one in tracebacks.
        let is_counted = !cell.silent && cell.store_history;
        let number = if is_counted { u32::try_from(self.count).ok() } else { Some(Cell::NOT_COUNTED) };
        let ran = self.session.exec_with(Cell { stdin, number, ..Cell::from(text) }, &mut io).await;
        self.inputs.stop();
        self.stop.received();
        self.is_changed = true;
        ran
    }

    /// Runs a cell of codebox that prints a document, and returns its output.
    pub(crate) async fn query(&mut self, cell: String) -> Option<Vec<u8>> {
        let report = self.run_uncounted(cell).await.ok()?;
        report.is_success().then(|| report.stdout.bytes().into_owned())
    }

    /// Evaluates expressions of a client, and returns the result of each.
    async fn evaluate(
        &mut self,
        expressions: impl Iterator<Item = (&String, &String)>,
    ) -> HashMap<String, ExpressionResult> {
        let mut results = HashMap::new();
        for (name, text) in expressions {
            let result = match self.run_uncounted(text.clone()).await {
                Ok(report) => match failure_of(&report, &(self.options.describe)(&report), text, &self.saved_state()) {
                    Some(failure) => failed_expression(failure),
                    None => value_of(report, self.language()),
                },
                Err(error) => failed_expression(refusal(&error)),
            };
            results.insert(name.clone(), result);
        }
        results
    }

    /// Runs a cell that is not one of a client, with a time limit. It may be interrupted as others.
    async fn run_uncounted(&mut self, text: String) -> Result<RunReport, RunnerError> {
        let mut io = ExecIo { cancel: self.stop.next(), ..ExecIo::none() };
        // A limit would end an interpreter in a container, which keeps its state after a cancellation.
        let cancel = io.cancel.clone();
        let timer = tokio::spawn(async move {
            tokio::time::sleep(QUERY_TIME).await;
            cancel.cancel();
        });
        let cell = Cell { number: Some(Cell::NOT_COUNTED), ..Cell::from(text) };
        let ran = self.session.exec_with(cell, &mut io).await;
        timer.abort();
        self.stop.received();
        ran
    }

    /// Saves the state after a cell. A state that cannot be saved, such as one with open files, leaves the last one in place.
    pub(crate) async fn save(&mut self) {
        if std::mem::take(&mut self.is_changed)
            && !self.session.is_in_container()
            && self.session.is_live().await
            && self.session.checkpoint(CHECKPOINT).await.is_ok()
        {
            self.saved = Some(self.count);
        }
    }

    /// Returns the line about the state with which the next cell starts, after one that has ended the interpreter.
    fn saved_state(&self) -> String {
        match self.saved {
            None => "the next cell starts without the state of earlier cells".to_owned(),
            Some(cell) if cell + 1 == self.count => "the next cell starts with the state before this cell".to_owned(),
            Some(cell) => format!(
                "the next cell starts with the state after cell {cell}; later ones could not be saved, for example because files are open"
            ),
        }
    }

    pub(crate) async fn close(self) {
        self.session.close().await;
    }
}

/// Calls a function that may wait for clients.
async fn on_thread(outputs: &Shared, function: impl FnOnce(&mut Outputs) + Send + 'static) {
    let outputs = outputs.clone();
    // The function does not panic.
    let _ = tokio::task::spawn_blocking(move || function(&mut lock(&outputs))).await;
}

/// Returns the failure of a cell, if it has failed: the error of its text, or the reason for which it was stopped.
fn failure_of(report: &RunReport, notes: &[String], code: &str, saved_state: &str) -> Option<ReplyError> {
    if let Some(error) = &report.error {
        let mut traceback: Vec<String> = error.traceback.join("\n").lines().map(str::to_owned).collect();
        if let Some(line) = ipython_command(code).filter(|_| error.name == "SyntaxError") {
            traceback.push(format!(
                "{line:?} is a command of IPython, which codebox does not run; install packages with codebox kernel install --with"
            ));
        }
        return Some(ReplyError { ename: error.name.clone(), evalue: error.value.clone(), traceback });
    }
    let (ename, mut lines) = match report.outcome {
        Outcome::Exited(0) if report.is_kept() => return None,
        Outcome::Exited(code) => ("SystemExit".to_owned(), vec![code.to_string()]),
        Outcome::Cancelled => ("KeyboardInterrupt".to_owned(), notes.to_vec()),
        _ => (report.result_kind().as_str().to_owned(), notes.to_vec()),
    };
    if !report.is_kept() {
        lines.push(saved_state.to_owned());
    }
    let evalue = lines.first().cloned().unwrap_or_default();
    let traceback =
        lines.iter().enumerate().map(|(at, line)| if at == 0 { format!("{ename}: {line}") } else { line.clone() });
    Some(ReplyError { traceback: traceback.collect(), ename, evalue })
}

fn failed_expression(ReplyError { ename, evalue, traceback }: ReplyError) -> ExpressionResult {
    ExpressionResult::Error { ename, evalue, traceback }
}

/// Returns the value of an expression. There is no result for `None` and `undefined`.
fn value_of(report: RunReport, language: &Language) -> ExpressionResult {
    let absent = if language.adapter() == Some(Adapter::Python) { "None" } else { "undefined" };
    let value = report.results.into_iter().rfind(|result| result.role == ResultRole::Value);
    let MimeBundle { data, metadata, .. } = value.unwrap_or_else(|| MimeBundle {
        data: [("text/plain".to_owned(), absent.into())].into(),
        ..MimeBundle::default()
    });
    let data = serde_json::from_value(data.into_iter().collect()).unwrap_or_default();
    ExpressionResult::Ok { data, metadata: metadata.into_iter().collect() }
}

/// Returns the failure of a cell that did not run.
fn refusal(error: &RunnerError) -> ReplyError {
    let mut traceback = vec![error.message().to_owned()];
    traceback.extend(error.fix().map(|fix| format!("fix: {fix}")));
    ReplyError { ename: error.kind().as_str().to_owned(), evalue: error.message().to_owned(), traceback }
}
