//! Host tools: functions of the host that a guest calls by name.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::backend::BoxFuture;
use crate::grants::ToolName;
use crate::report::Effects;

/// Tool as a guest sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDescription {
    /// Name.
    pub name: ToolName,
    /// Purpose, for people and models.
    pub description: String,
    /// JSON Schema of the input, which is an object.
    pub input: Value,
    /// JSON Schema of the output, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
}

/// Permission to call a tool, for runs to which it is granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// Every call is permitted.
    #[default]
    Allow,
    /// Each call is decided by the user or the embedder. Without either, calls are refused.
    Ask,
    /// Every call is refused.
    Deny,
}

/// Failure of a call, which the guest receives as an exception.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFailure {
    /// Kind: one of the constants of this type, or a kind of the tool itself.
    pub kind: String,
    /// Message, with the end of the standard error of a program.
    pub message: String,
    /// End of the standard error of a program that failed, by itself.
    #[serde(default)]
    pub stderr: Option<String>,
}

impl ToolFailure {
    /// [Kind](Self::kind) of a call of a tool that does not exist or is not granted, or that was not approved.
    pub const DENIED: &str = "denied";
    /// [Kind](Self::kind) of a call whose input does not match the schema.
    pub const INVALID_INPUT: &str = "invalid_input";
    /// [Kind](Self::kind) of a call whose output does not match the schema.
    pub const INVALID_OUTPUT: &str = "invalid_output";
    /// [Kind](Self::kind) of a call that exceeds a budget.
    pub const BUDGET: &str = "budget";
    /// [Kind](Self::kind) of a call whose cell is to be suspended until the call is approved. The guest does not receive it.
    pub const SUSPENDED: &str = "suspended";
    /// [Kind](Self::kind) of a call of which it is not known how it ended.
    pub const INTERRUPTED: &str = "interrupted";
    /// [Kind](Self::kind) of a tool that cannot be started: its program is missing, or no backend can run it.
    pub const UNAVAILABLE: &str = "unavailable";
    /// [Kind](Self::kind) of a tool that failed without a kind of its own.
    pub const FAILED: &str = "failed";

    /// Creates a failure.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), message: message.into(), stderr: None }
    }

    /// Adds the end of the standard error of a program, also to the message.
    #[must_use]
    pub fn with_stderr(self, stderr: &str) -> Self {
        if stderr.is_empty() {
            return self;
        }
        Self { message: format!("{}: {stderr}", self.message), stderr: Some(stderr.to_owned()), ..self }
    }
}

/// Output of a call as JSON text, or its failure.
pub type ToolResult = Result<Vec<u8>, ToolFailure>;

/// The tools of one run.
pub trait ToolCalls: Send + Sync {
    /// Returns the tools that the guest may call.
    fn list(&self) -> Vec<ToolDescription>;

    /// Starts a call with an input as JSON text, which is not trusted. The future may be polled in any executor, and the call
    /// ends when it is dropped. `effects` are those of the guest so far, apart from its calls.
    fn call(&self, name: &str, input: Vec<u8>, effects: Effects) -> BoxFuture<'static, ToolResult>;
}

/// Access of a run to its tools.
pub type RunTools = Arc<dyn ToolCalls>;

/// First byte of a guest's request to call a tool. The name of the tool, a zero byte, and the input as JSON text follow.
pub const TOOL_TAG: u8 = 4;

/// Returns the name and the input of a guest's request to call a tool; `None` if the request is malformed.
#[must_use]
pub fn parse_tool_call(request: &[u8]) -> Option<(&str, &[u8])> {
    let request = request.strip_prefix(&[TOOL_TAG])?;
    let end = request.iter().position(|byte| *byte == 0)?;
    Some((std::str::from_utf8(&request[..end]).ok()?, &request[end + 1..]))
}

/// Encodes the answer to a call for a guest: 1 and the output, or 0 and the failure as JSON text.
#[must_use]
pub fn encode_tool_result(result: ToolResult) -> Vec<u8> {
    match result {
        Ok(mut output) => {
            output.insert(0, 1);
            output
        }
        Err(failure) => {
            let mut answer = vec![0];
            // A vector accepts all output, and a failure has texts alone.
            let _ = serde_json::to_writer(&mut answer, &failure);
            answer
        }
    }
}

/// Call of a tool that waits for an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspendedCall {
    /// Id of the call among all that wait for an approval.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Input as JSON text.
    pub input: String,
}

/// Call of a tool in a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Name of the tool as the guest called it, shortened.
    pub name: String,
    /// Bytes of the input.
    pub input_bytes: u64,
    /// Bytes of the output.
    pub output_bytes: u64,
    /// Wall time of the call.
    pub wall: Duration,
    /// Kind of the failure; `None` if the call succeeded.
    pub failure: Option<String>,
}
