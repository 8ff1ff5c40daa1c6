//! The calls of a run.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use codebox_core::{
    Approval, BoxFuture, CancelToken, Effects, RunReport, SecretValues, ToolCall, ToolCalls, ToolDescription,
    ToolFailure, ToolName, ToolResult, mask_secrets,
};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;

use crate::calls::{CallList, MAX_NAME, shown};
use crate::schema::Schema;
use crate::tool::{CallLimits, Tool};
use crate::toolbox::{Decision, ToolBudgets, ToolRequest, Toolbox};

/// Maximum time of the check of a value by a schema with references.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum length of the message of a failure in bytes.
const MAX_MESSAGE: usize = 4_000;

/// The tools that a run is granted, and the record of its calls.
pub struct ToolRun {
    toolbox: Arc<Toolbox>,
    granted: BTreeSet<ToolName>,
    executor: Handle,
    used: Arc<Mutex<Used>>,
}

/// Calls and bytes that a run has used.
#[derive(Default)]
struct Used {
    calls: u64,
    bytes: u64,
    list: CallList,
    /// True if a check has not ended in its time. Its thread goes on, so there is only one.
    is_check_abandoned: bool,
}

impl ToolRun {
    pub(crate) fn new(toolbox: Arc<Toolbox>, granted: BTreeSet<ToolName>, executor: Handle) -> Self {
        Self { toolbox, granted, executor, used: Arc::default() }
    }

    /// Returns the calls so far, and the number of those that are not listed because there were too many. Calls that have not ended are the
    /// last ones; at the end of a run they are interrupted, and may have had an effect.
    #[must_use]
    pub fn calls(&self) -> (Vec<ToolCall>, u64) {
        lock(&self.used).list.all()
    }

    /// Adds calls that the program has made before it was suspended. They count for the budgets.
    pub fn add_earlier(&self, calls: Vec<ToolCall>) {
        let mut used = lock(&self.used);
        for call in calls {
            used.calls += 1;
            used.bytes = used.bytes.saturating_add(call.input_bytes).saturating_add(call.output_bytes);
            used.list.add(call);
        }
    }

    /// Adds the calls to the report of the run. A program that has called a tool is not run again.
    pub fn report(&self, report: &mut RunReport) {
        (report.tool_calls, report.tool_calls_dropped) = self.calls();
        if !report.tool_calls.is_empty() {
            report.effects = Effects::Possible;
        }
    }

    /// Starts a call with an input as JSON text. A call that was approved already is made without a question.
    pub fn start(&self, name: &str, input: Vec<u8>, is_approved: bool) -> BoxFuture<'static, ToolResult> {
        self.start_until(name, input, is_approved, CancelToken::new())
    }

    /// Starts a call as [`start`](Self::start) does, which fails with [`INTERRUPTED`](ToolFailure::INTERRUPTED) when a token is cancelled.
    /// The end of the call cancels the token as well.
    pub fn start_until(
        &self,
        name: &str,
        input: Vec<u8>,
        is_approved: bool,
        cancel: CancelToken,
    ) -> BoxFuture<'static, ToolResult> {
        let (tool, toolbox, used) = (self.tool(name), Arc::clone(&self.toolbox), Arc::clone(&self.used));
        let number = lock(&used).list.start(name, &input);
        // The caller may poll in another executor, or in none that has time and I/O.
        let call = self.executor.spawn(async move {
            let result = match use_call(&used, &toolbox.budgets).and(tool) {
                Ok(tool) => checked(&tool, &toolbox, &used, &input, is_approved, cancel)
                    .await
                    .map_err(|failure| presentable(failure, &tool.secrets)),
                Err(failure) => Err(failure),
            };
            if let Err(failure) = &result {
                // A budget that is exceeded ends the next call.
                let _ = use_bytes(&used, failure.message.len(), &toolbox.budgets);
            }
            lock(&used).list.end(number, &result);
            result
        });
        let call = AbortOnDrop(call);
        Box::pin(call.finish())
    }

    /// Returns the tool of a call, if the run may call it.
    fn tool(&self, name: &str) -> Result<Tool, ToolFailure> {
        let denied = |why: &str| ToolFailure::new(ToolFailure::DENIED, format!("the tool {} {why}", shown(name)));
        let granted = ToolName::new(name).ok().filter(|name| self.granted.contains(name));
        let tool = granted.and_then(|name| self.toolbox.tools.get(&name));
        // A program does not learn which tools exist that it may not call.
        let tool = tool.ok_or_else(|| denied("is not granted to this program"))?;
        match tool.approval {
            Approval::Deny => Err(denied("is denied")),
            Approval::Allow | Approval::Ask => Ok(tool.clone()),
        }
    }
}

impl ToolCalls for ToolRun {
    fn list(&self) -> Vec<ToolDescription> {
        let granted = self.granted.iter().filter_map(|name| self.toolbox.tools.get(name));
        granted.filter(|tool| tool.approval != Approval::Deny).map(|tool| tool.description.clone()).collect()
    }

    fn call(&self, name: &str, input: Vec<u8>, _: Effects) -> BoxFuture<'static, ToolResult> {
        self.start(name, input, false)
    }
}

/// Makes a call within the budgets of the run, which ends when `cancel` is cancelled.
async fn checked(
    tool: &Tool,
    toolbox: &Toolbox,
    used: &Mutex<Used>,
    input: &[u8],
    is_approved: bool,
    cancel: CancelToken,
) -> ToolResult {
    let time = toolbox.budgets.time;
    use_bytes(used, input.len(), &toolbox.budgets)?;
    let invalid = |message: String| ToolFailure::new(ToolFailure::INVALID_INPUT, message);
    let input: Value = serde_json::from_slice(input).map_err(|error| invalid(error.to_string()))?;
    let input = conforming(&tool.input, input, used).await?.map_err(invalid)?;
    let time = tool.timeout.map_or(time, |own| own.min(time));
    let late = |_| budget(format!("the call took longer than {} s", time.as_secs_f64()));
    let began = Instant::now();
    timeout(time, approve(tool, toolbox, &input, is_approved)).await.map_err(late)??;
    let limits = CallLimits { time: time.saturating_sub(began.elapsed()), cancel: cancel.clone() };
    let cancel = CancelOnDrop(cancel);
    let most = limits.time + tool.start_time + tool.end_time;
    let cancelled = async {
        cancel.0.cancelled().await;
        tokio::time::sleep(tool.end_time).await;
    };
    let called = tokio::select! {
        called = timeout(most, (tool.handler)(input, limits)) => called.map_err(late)?,
        () = cancelled => Err(ToolFailure::new(ToolFailure::INTERRUPTED, "the call was cancelled")),
    };
    let mut output = called.map_err(|failure| match failure.kind.as_str() {
        // Only a decision suspends a cell.
        ToolFailure::SUSPENDED => ToolFailure { kind: ToolFailure::FAILED.to_owned(), ..failure },
        _ => failure,
    })?;
    let invalid = |message: String| ToolFailure::new(ToolFailure::INVALID_OUTPUT, message);
    if let Some(schema) = &tool.output {
        output = conforming(schema, output, used).await?.map_err(invalid)?;
    }
    let output = serde_json::to_vec(&output).map_err(|error| invalid(error.to_string()))?;
    use_bytes(used, output.len(), &toolbox.budgets)?;
    Ok(output)
}

/// Returns a value if it conforms to a schema, and the rule that it breaks otherwise.
async fn conforming(schema: &Schema, value: Value, used: &Mutex<Used>) -> Result<Result<Value, String>, ToolFailure> {
    if !schema.has_references {
        return Ok(schema.check(&value).map(|()| value));
    }
    if lock(used).is_check_abandoned {
        return Err(budget("the check of an earlier value has not ended".to_owned()));
    }
    let schema = schema.clone();
    let check = tokio::task::spawn_blocking(move || schema.check(&value).map(|()| value));
    match timeout(CHECK_TIMEOUT, check).await {
        Ok(Ok(checked)) => Ok(checked),
        Ok(Err(_)) => Err(ToolFailure::new(ToolFailure::FAILED, "the check of a value ended with a panic")),
        Err(_) => {
            lock(used).is_check_abandoned = true;
            Err(budget(format!("the check of a value took longer than {} s", CHECK_TIMEOUT.as_secs())))
        }
    }
}

/// Asks for the approval of a call that needs one.
async fn approve(tool: &Tool, toolbox: &Toolbox, input: &Value, is_approved: bool) -> Result<(), ToolFailure> {
    if tool.approval != Approval::Ask || is_approved {
        return Ok(());
    }
    let request = ToolRequest { tool: tool.name().clone(), input: input.clone() };
    let decision = match &toolbox.approver {
        Some(approver) => approver(request).await,
        None => Decision::Denied,
    };
    let failure =
        |kind, what: &str| Err(ToolFailure::new(kind, format!("the call of the tool {} {what}", tool.name())));
    match decision {
        Decision::Approved => Ok(()),
        Decision::Denied => failure(ToolFailure::DENIED, "was not approved"),
        Decision::Suspended => failure(ToolFailure::SUSPENDED, "waits for an approval"),
    }
}

/// Counts a call, also one that is refused.
fn use_call(used: &Mutex<Used>, budgets: &ToolBudgets) -> Result<(), ToolFailure> {
    let mut used = lock(used);
    used.calls += 1;
    match used.calls > budgets.calls {
        true => Err(budget(format!("the program has made all of its {} calls", budgets.calls))),
        false => Ok(()),
    }
}

/// Returns a failure whose texts have a maximum length, and secrets masked. They can come from another program.
fn presentable(failure: ToolFailure, secrets: &SecretValues) -> ToolFailure {
    let text = |text: String, most| {
        let mut text = mask_secrets(&text, &secrets.all());
        text.truncate(text.floor_char_boundary(most));
        text
    };
    ToolFailure {
        kind: text(failure.kind, MAX_NAME),
        message: text(failure.message, MAX_MESSAGE),
        stderr: failure.stderr.map(|stderr| text(stderr, MAX_MESSAGE)),
    }
}

fn use_bytes(used: &Mutex<Used>, count: usize, budgets: &ToolBudgets) -> Result<(), ToolFailure> {
    let mut used = lock(used);
    let total = used.bytes.saturating_add(count as u64);
    if total > budgets.bytes {
        return Err(budget(format!("the inputs and outputs have more than {} bytes", budgets.bytes)));
    }
    used.bytes = total;
    Ok(())
}

fn budget(message: String) -> ToolFailure {
    ToolFailure::new(ToolFailure::BUDGET, message)
}

fn lock(used: &Mutex<Used>) -> std::sync::MutexGuard<'_, Used> {
    used.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cancels a call when it has ended or is no longer waited for.
struct CancelOnDrop(CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A call that ends when it is no longer waited for.
struct AbortOnDrop(JoinHandle<ToolResult>);

impl AbortOnDrop {
    async fn finish(mut self) -> ToolResult {
        let ended = (&mut self.0).await;
        ended.unwrap_or_else(|_| Err(ToolFailure::new(ToolFailure::FAILED, "the tool ended with a panic")))
    }

    fn handle(&self) -> AbortHandle {
        self.0.abort_handle()
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.handle().abort();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Calls from before a suspension count, so a program does not get its budgets again with each approval.
    #[test]
    fn earlier_calls_count() {
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an executor");
        let tool = Tool::new("a", "", json!({}), |_| async { Ok(json!("12345678")) }).expect("a tool");
        let budgets = ToolBudgets { calls: 4, bytes: 40, ..ToolBudgets::default() };
        let toolbox = Arc::new(Toolbox::new([tool]).expect("one tool").with_budgets(budgets));
        let call = |bytes| ToolCall {
            name: "a".to_owned(),
            input_bytes: bytes,
            output_bytes: bytes,
            wall: Duration::ZERO,
            failure: None,
        };
        // An input has 2 bytes and an output 10.
        for (earlier, expected) in [
            (vec![], [None, None, None]),
            (vec![call(0), call(0)], [None, None, Some(ToolFailure::BUDGET)]),
            (vec![call(8)], [None, None, Some(ToolFailure::BUDGET)]),
        ] {
            let run = toolbox.start_run(&[ToolName::new("a").expect("a name")], executor.handle().clone());
            let count = earlier.len();
            run.add_earlier(earlier);
            for failure in expected {
                let result = executor.block_on(run.start("a", b"{}".to_vec(), false));
                assert_eq!(result.err().map(|failure| failure.kind), failure.map(str::to_owned));
            }
            assert_eq!(run.calls().0.len(), count + 3);
        }
    }
}
