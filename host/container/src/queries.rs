//! Queries of a job's programs to the host while the job runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use codebox_agent::{MAX_OPEN_QUERIES, Request};
use codebox_analysis::{Analyzer, Budget, StripRequest, StripResponse, split_answer};
use codebox_core::{BoxFuture, Effects, Limits, RunTools, ToolFailure, encode_tool_result, parse_tool_call};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Semaphore;

use crate::error::ContainerError;

/// Timeout of a query. The analyzer's own timeout for the text is much shorter.
const QUERY_TIMEOUT: Duration = Duration::from_secs(40);

/// Most threads of one job that wait for the analyzer.
const MAX_WORKERS: usize = 4;

/// Query for the list of tools.
const LIST_TOOLS: &[u8] = br#"{"op": "tools"}"#;

/// Maximum size of the input of a tool in bytes.
const MAX_TOOL_INPUT: usize = 2 << 20;

/// Maximum size of the output of a tool in bytes, which fits into a request to the agent.
const MAX_TOOL_OUTPUT: usize = Request::MAX_PAYLOAD_SIZE - 1024;

/// Strips the types from a job's TypeScript, within the job's limits.
#[derive(Clone)]
pub(crate) struct Stripper {
    analyzer: Option<Analyzer>,
    memory: Option<u64>,
    cpu: Option<Duration>,
    /// Processor time in nanoseconds.
    used: Arc<AtomicU64>,
}

impl Stripper {
    /// Creates a stripper for a job with these limits.
    pub(crate) fn new(analyzer: Option<Analyzer>, limits: &Limits) -> Self {
        let memory = limits.memory.at().map(|size| size.get());
        Self { analyzer, memory, cpu: limits.cpu.at(), used: Arc::default() }
    }

    /// Returns the processor time that the stripper has used.
    pub(crate) fn used(&self) -> Duration {
        Duration::from_nanos(self.used.load(Ordering::Relaxed))
    }

    /// Returns a program without its types, or an error message.
    pub(crate) async fn program(&self, file: &str, text: &str) -> Result<String, String> {
        let request = StripRequest { file: file.to_owned(), text: text.to_owned() };
        let stripper = self.clone();
        let work = tokio::task::spawn_blocking(move || stripper.strip(&request));
        let answer = work.await.ok().flatten().ok_or("TypeScript is not supported in this build")?;
        split_answer(&answer).map_err(|fault| fault.message)
    }

    fn strip(&self, request: &StripRequest) -> Option<Vec<u8>> {
        let StripResponse { answer, used } =
            self.analyzer.as_ref()?.strip(request, Budget::within(self.memory, self.cpu));
        self.used.fetch_add(u64::try_from(used.cpu.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        Some(answer)
    }
}

/// Queries of a job that have no answer yet, each a separate future. Dropping the value cancels them.
pub(crate) struct Queries {
    open: FuturesUnordered<BoxFuture<'static, (u32, Vec<u8>)>>,
    /// Numbers of the open queries.
    numbers: BTreeSet<u32>,
    workers: Arc<Semaphore>,
    stripper: Stripper,
    tools: Option<RunTools>,
}

impl Queries {
    /// Creates an empty set of queries for a job whose TypeScript this stripper handles, and which may call these tools.
    pub(crate) fn new(stripper: Stripper, tools: Option<RunTools>) -> Self {
        Self {
            open: FuturesUnordered::new(),
            numbers: BTreeSet::new(),
            workers: Arc::new(Semaphore::new(MAX_WORKERS)),
            stripper,
            tools,
        }
    }

    /// Returns true if the answers alone have used more processor time than the job's limit.
    pub(crate) fn exceeds_cpu_limit(&self) -> bool {
        self.stripper.cpu.is_some_and(|most| self.stripper.used() >= most)
    }

    /// Starts a query, whose content is untrusted. A query beyond the number that an agent may forward gets an empty
    /// answer.
    ///
    /// # Errors
    /// Returns an error if the agent sends even more queries. Refusals wait to be sent, and our agent does not add to
    /// them.
    pub(crate) fn submit(&mut self, number: u32, query: Vec<u8>) -> Result<(), ContainerError> {
        if self.open.len() >= 2 * MAX_OPEN_QUERIES {
            return Err(ContainerError::Agent(format!("more than {} concurrent requests", 2 * MAX_OPEN_QUERIES)));
        }
        let answer = (self.open.len() < MAX_OPEN_QUERIES).then(|| self.answer(query));
        self.numbers.insert(number);
        self.open.push(Box::pin(async move {
            match answer {
                Some(answer) => (number, answer.await),
                None => (number, Vec::new()),
            }
        }));
        Ok(())
    }

    /// Ends the open queries, and returns an answer to each.
    pub(crate) fn interrupted(self) -> Vec<Request> {
        let answer = match self.tools {
            Some(_) => encode_tool_result(Err(ToolFailure::new(ToolFailure::FAILED, "the cell has ended"))),
            None => Vec::new(),
        };
        self.numbers.into_iter().map(|number| Request::Answer(number, answer.clone())).collect()
    }

    fn answer(&self, query: Vec<u8>) -> BoxFuture<'static, Vec<u8>> {
        let Some(tools) = &self.tools else {
            return Box::pin(stripped(query, Arc::clone(&self.workers), self.stripper.clone()));
        };
        if query == LIST_TOOLS {
            let list = serde_json::to_vec(&tools.list()).unwrap_or_default();
            return Box::pin(std::future::ready(list));
        }
        match parse_tool_call(&query) {
            Some((_, input)) if input.len() > MAX_TOOL_INPUT => {
                Box::pin(std::future::ready(too_large("input", MAX_TOOL_INPUT)))
            }
            Some((name, input)) => {
                let call = tools.call(name, input.to_vec(), Effects::Possible);
                Box::pin(async move {
                    match call.await {
                        Ok(output) if output.len() > MAX_TOOL_OUTPUT => too_large("output", MAX_TOOL_OUTPUT),
                        result => encode_tool_result(result),
                    }
                })
            }
            None => Box::pin(stripped(query, Arc::clone(&self.workers), self.stripper.clone())),
        }
    }

    /// Waits for the next answer, which is empty for an invalid query. Never completes without an open query. Cancel
    /// safe.
    pub(crate) async fn next_answer(&mut self) -> (u32, Vec<u8>) {
        match self.open.next().await {
            Some((number, answer)) => {
                self.numbers.remove(&number);
                (number, answer)
            }
            None => std::future::pending().await,
        }
    }
}

fn too_large(what: &str, maximum: usize) -> Vec<u8> {
    encode_tool_result(Err(ToolFailure::new(ToolFailure::BUDGET, format!("the {what} has more than {maximum} bytes"))))
}

async fn stripped(query: Vec<u8>, workers: Arc<Semaphore>, stripper: Stripper) -> Vec<u8> {
    let work = async {
        // The semaphore is never closed.
        let worker = workers.acquire_owned().await.ok()?;
        let work = tokio::task::spawn_blocking(move || {
            let _worker = worker;
            let request = serde_json::from_slice::<StripRequest>(&query).ok()?;
            stripper.strip(&request)
        });
        work.await.ok()?
    };
    tokio::time::timeout(QUERY_TIMEOUT, work).await.ok().flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a set of queries with a real analyzer, which is kept in the directory.
    fn queries() -> (tempfile::TempDir, Queries) {
        let dir = tempfile::tempdir().expect("a directory");
        let analyzer = Analyzer::below(&dir.path().join("programs"));
        (dir, Queries::new(Stripper::new(Some(analyzer), &Limits::default()), None))
    }

    #[tokio::test]
    async fn answers_carry_the_number_of_their_query() {
        let (_dir, mut queries) = queries();
        queries.submit(7, br#"{"file": "a.ts", "text": "let a: number = 1"}"#.to_vec()).expect("capacity");
        queries.submit(8, b"nonsense".to_vec()).expect("capacity");
        let mut answers = [queries.next_answer().await, queries.next_answer().await];
        answers.sort_unstable();
        assert_eq!((answers[0].0, answers[1].0), (7, 8));
        let answer = String::from_utf8_lossy(&answers[0].1);
        let (_map, code) = answer.split_once('\n').expect("a line before the program");
        assert!(code.starts_with("let a") && !code.contains("number"), "{answer}");
        assert!(answers[1].1.is_empty());
    }

    #[tokio::test]
    async fn rejects_agent_with_too_many_open_queries() {
        let (_dir, mut queries) = queries();
        let mut results = (0..u32::MAX).map(|number| queries.submit(number, vec![0; 100]));
        let failed_at = results.position(|results| results.is_err());
        assert_eq!(failed_at, Some(2 * MAX_OPEN_QUERIES));
    }

    #[tokio::test]
    async fn answers_excess_queries_with_empty_bytes() {
        let (_dir, mut queries) = queries();
        // All workers are busy, so the queries stay open.
        let busy = Arc::clone(&queries.workers).acquire_many_owned(MAX_WORKERS as u32).await;
        for number in 0..=MAX_OPEN_QUERIES as u32 {
            queries.submit(number, br#"{"file": "a.ts", "text": "1"}"#.to_vec()).expect("capacity");
        }
        assert_eq!(queries.next_answer().await, (MAX_OPEN_QUERIES as u32, Vec::new()));
        drop(busy);
        for _ in 0..MAX_OPEN_QUERIES {
            assert!(!queries.next_answer().await.1.is_empty());
        }
    }
}
