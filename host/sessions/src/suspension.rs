//! Tools of a cell that can be suspended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use codebox_core::{
    BoxFuture, CancelToken, Effects, OutputSink, ResultKind, RunTools, RunnerError, ToolCalls, ToolDescription,
    ToolFailure, ToolResult,
};

use crate::exec::ClientTools;
use crate::journal::{Journal, Next};

/// Calls of a cell that can be suspended. Clones share the calls.
#[derive(Clone)]
pub(crate) struct Suspendable(Arc<Shared>);

struct Shared {
    tools: Arc<ClientTools>,
    /// The journal, or the reason that the cell cannot be suspended.
    journal: Result<Mutex<Journal>, String>,
    /// Number of calls so far.
    position: AtomicU64,
    /// Bytes of the two streams of output so far.
    written: [AtomicU64; 2],
    /// Cancels the cell.
    cancel: CancelToken,
    end: Mutex<Option<End>>,
}

/// Reason that a cell was cancelled.
#[derive(Debug, Clone)]
pub(crate) enum End {
    Suspended,
    /// It cannot go on.
    Failed(RunnerError),
}

impl Suspendable {
    pub(crate) fn new(tools: Arc<ClientTools>, journal: Result<Journal, String>, cancel: CancelToken) -> Self {
        let journal = journal.map(Mutex::new);
        let (position, written, end) = (AtomicU64::new(0), Default::default(), Mutex::default());
        Self(Arc::new(Shared { tools, journal, position, written, cancel, end }))
    }

    /// Returns the calls for the cell.
    pub(crate) fn tools(&self) -> RunTools {
        Arc::new(self.clone())
    }

    /// Returns a sink that counts output, and leaves out what was delivered before the cell was suspended.
    pub(crate) fn counted(&self, stream: usize, inner: Option<Box<dyn OutputSink>>) -> Option<Box<dyn OutputSink>> {
        let delivered = self.0.journal.as_ref().map_or([0, 0], |journal| lock(journal).delivered);
        Some(Box::new(CountedSink { inner: inner?, shared: Arc::clone(&self.0), stream, left: delivered[stream] }))
    }

    /// Returns the reason that the cell was cancelled, if it was by a call.
    pub(crate) fn end(&self) -> Option<End> {
        lock(&self.0.end).clone()
    }

    /// Returns the end of a cell that has not made all recorded calls again.
    pub(crate) fn unmade_call(&self) -> Option<End> {
        let position = usize::try_from(self.0.position.load(Ordering::Relaxed)).ok()?;
        let journal = lock(self.0.journal.as_ref().ok()?);
        let name = journal.call_at(position)?;
        Some(diverged("it ends", &format!("called {}", shown(name))))
    }

    /// Records the output that was delivered so far.
    pub(crate) fn record_delivered(&self) -> std::io::Result<()> {
        self.0.journal.as_ref().map_or(Ok(()), |journal| self.0.record_delivered(&mut lock(journal)))
    }

    /// Records that the cell was stopped before it ended.
    pub(crate) fn record_stop(&self, has_effects: bool) -> std::io::Result<()> {
        self.0.journal.as_ref().map_or(Ok(()), |journal| lock(journal).stop(has_effects))
    }
}

impl Shared {
    fn record_delivered(&self, journal: &mut Journal) -> std::io::Result<()> {
        let delivered =
            [0, 1].map(|stream| self.written[stream].load(Ordering::Relaxed).max(journal.delivered[stream]));
        journal.deliver(delivered)
    }

    async fn call(&self, name: &str, input: Vec<u8>, effects: Effects) -> ToolResult {
        let invalid = |_| ToolFailure::new(ToolFailure::INVALID_INPUT, "the input is not UTF-8");
        let mut input = normalized(String::from_utf8(input).map_err(invalid)?);
        let mut is_approved = false;
        if let Ok(journal) = &self.journal {
            let position = self.position.fetch_add(1, Ordering::Relaxed);
            let next = {
                let mut journal = lock(journal);
                // After a crash, at most the output since the last call is delivered again.
                let recorded = if journal.is_suspended() { self.record_delivered(&mut journal) } else { Ok(()) };
                let position = usize::try_from(position).unwrap_or(usize::MAX);
                recorded.and_then(|()| journal.next(position, name, &input))
            };
            match next {
                Ok(Next::Recorded(result)) => return result,
                Ok(Next::Make { input: recorded, is_approved: approved }) => {
                    (input, is_approved) = (recorded, approved)
                }
                Ok(Next::Diverged(before)) => {
                    return self
                        .stop(diverged(&format!("it calls {}", shown(name)), &format!("called {}", shown(&before))))
                        .await;
                }
                Err(error) => return self.stop(failed(&error)).await,
            }
        }
        let mut result = self.tools.request(name, input.into_bytes(), is_approved).await;
        if let Err(failure) = &result
            && failure.kind == ToolFailure::SUSPENDED
        {
            let obstacle = match (&self.journal, effects) {
                (Err(why), _) => why.as_str(),
                (Ok(_), Effects::Possible) => "it has changed files or used the network, which would be repeated",
                (Ok(journal), Effects::None) => {
                    let suspended = lock(journal).suspend();
                    return self.stop(suspended.map_or_else(|error| failed(&error), |()| End::Suspended)).await;
                }
            };
            let line =
                format!("the call of the tool {name} needs an approval, and the cell cannot be suspended: {obstacle}");
            result = Err(ToolFailure::new(ToolFailure::DENIED, line));
        }
        let recorded = self.journal.as_ref().map_or(Ok(()), |journal| lock(journal).end(&result));
        if let Err(error) = recorded {
            return self.stop(failed(&error)).await;
        }
        result
    }

    /// Ends the cell: the call has no result.
    async fn stop(&self, end: End) -> ToolResult {
        *lock(&self.end) = Some(end);
        self.cancel.cancel();
        std::future::pending().await
    }
}

impl ToolCalls for Suspendable {
    fn list(&self) -> Vec<ToolDescription> {
        self.0.tools.list()
    }

    fn call(&self, name: &str, input: Vec<u8>, effects: Effects) -> BoxFuture<'static, ToolResult> {
        let (shared, name) = (Arc::clone(&self.0), name.to_owned());
        Box::pin(async move { shared.call(&name, input, effects).await })
    }
}

/// Returns an input as its call is made: JSON text in which a name of an object appears once. A text that is no JSON stays, and its call fails.
fn normalized(input: String) -> String {
    serde_json::from_str::<serde_json::Value>(&input).map_or(input, |value| value.to_string())
}

/// Returns the name of a tool for a message.
fn shown(name: &str) -> String {
    name.chars().filter(char::is_ascii_graphic).take(64).collect()
}

fn diverged(now: &str, before: &str) -> End {
    let line = format!("the cell took another course than before it was suspended: {now}, and {before} before");
    let fix = "end the cell with --discard; a cell whose calls depend on the time or on files cannot be resumed";
    End::Failed(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix))
}

fn failed(error: &std::io::Error) -> End {
    End::Failed(RunnerError::new(ResultKind::InternalError, format!("cannot record the calls of the cell: {error}")))
}

/// Sink that counts, and leaves the first bytes out.
struct CountedSink {
    inner: Box<dyn OutputSink>,
    shared: Arc<Shared>,
    stream: usize,
    left: u64,
}

impl OutputSink for CountedSink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let known = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        self.left -= known as u64;
        if known < bytes.len() {
            self.inner.write(&bytes[known..])?;
        }
        self.shared.written[self.stream].fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
