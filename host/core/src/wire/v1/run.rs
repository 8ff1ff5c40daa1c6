use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::files::FileChanges;
use super::limits::{Enforcement, LimitsInForce};
use super::network::NetUse;
use super::outcome::{Outcome, ResultName, words};
use super::output::{Stream, Truncation};
use super::provenance::{Provenance, Usage, millis};
use crate::{guest_error, report};

/// Report of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RunReport {
    /// Version of the report: 1.
    pub version: u32,
    /// Job id under which `codebox jobs` lists the run, if it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// True if the guest exited with status 0.
    pub success: bool,
    /// Exit status of the process that ran the job.
    pub exit_code: u8,
    /// Milliseconds from the program's start to its end.
    pub duration_ms: f64,
    /// Backend that ran the job.
    pub method: String,
    /// Result kind of the outcome.
    pub kind: ResultName,
    /// True if the same request may end differently later.
    pub retryable: bool,
    /// Outcome of the run.
    pub outcome: Outcome,
    /// Standard output; lossy if `stdout_base64` is present.
    pub stdout: String,
    /// Bytes of the standard output, if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_base64: Option<String>,
    /// Gap in the standard output, if bytes are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_truncated: Option<Truncation>,
    /// Standard error; lossy if `stderr_base64` is present.
    pub stderr: String,
    /// Bytes of the standard error, if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<String>,
    /// Gap in the standard error, if bytes are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_truncated: Option<Truncation>,
    /// Files with the whole output of streams that were cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spilled: Vec<SpilledOutput>,
    /// Rich results, in the order in which they were shown.
    pub results: Vec<MimeBundle>,
    /// Number of rich results that were dropped because they exceed the maximum number or size.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub results_dropped: u64,
    /// Calls of host tools, in the order in which they ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Number of calls that are not listed because there were too many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tool_calls_dropped: u64,
    /// Exception or error that ended the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<GuestError>,
    /// Changes to files.
    pub files: FileChanges,
    /// Resource use.
    pub usage: Usage,
    /// Backend that ran the job, and the reason that it was chosen.
    pub provenance: Provenance,
    /// Limits in force.
    pub limits: LimitsInForce,
    /// Enforcement levels of the limits, and states of the sandbox layers.
    pub enforcement: Enforcement,
    /// Network activity, if there was any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetUse>,
    /// Requests of the guest that were refused.
    pub denials: Vec<Denial>,
    /// Requirements of the program that were not met, with hints.
    pub missing: Vec<Missing>,
    /// Requirement of a failed run that needs a stronger isolation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_escalation: Option<NeedsEscalation>,
    /// Reason that the run is not in the audit log, although it should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unaudited: Option<String>,
    /// State of the session after the run; absent for a run outside of sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionState>,
}

/// File with the whole output of a stream that was cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SpilledOutput {
    /// `stdout` or `stderr`.
    pub stream: String,
    /// Path of the file.
    pub path: String,
    /// Number of bytes in the file, at most as many as the limit on output.
    pub bytes: u64,
}

/// One rich result in several forms, keyed by MIME type; binary forms are base64.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MimeBundle {
    /// Forms of the result.
    pub data: BTreeMap<String, Value>,
    /// Metadata of the forms.
    pub metadata: BTreeMap<String, Value>,
    /// Role of the result in its program.
    pub role: RoleWord,
    /// Name by which the program can replace the forms of the result later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_id: Option<String>,
}

words! {
    /// Role of a rich result in its program.
    #[serde(rename_all = "snake_case")]
    RoleWord of report::ResultRole {
        /// Output that the program displayed while it ran.
        Display,
        /// Value of the program's last expression.
        Value,
        /// New forms of what an earlier cell has shown with the same `display_id`.
        Update,
    }
}

/// Exception or error that ended a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GuestError {
    /// Type of the error.
    pub name: String,
    /// Message of the error.
    pub value: String,
    /// Lines of the traceback.
    pub traceback: Vec<String>,
    /// Line of the user's program that raised the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Calls that led to the error; the innermost is the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<ErrorFrame>,
}

/// Call that led to an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ErrorFrame {
    /// File as the traceback names it.
    pub file: String,
    /// Line in the file, from 1.
    pub line: u32,
    /// Column in the line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// Function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Text of the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// Request of the guest that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Denial {
    /// Kind of the resource.
    pub what: DenialWord,
    /// Resource that was requested.
    pub detail: String,
    /// Hint on how to allow the request.
    pub hint: String,
}

words! {
    /// Kind of a refused resource.
    #[serde(rename_all = "snake_case")]
    DenialWord of report::DenialKind {
        /// A file or directory.
        Fs,
        /// A network connection.
        Net,
        /// An environment variable.
        Env,
        /// A capability of the operating system.
        Capability,
        /// A host tool.
        Tool,
    }
}

/// Requirement of the program that this isolation cannot meet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Missing {
    /// Missing feature.
    pub what: String,
    /// Hint on how to obtain the feature.
    pub hint: String,
}

/// Session after one of its cells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SessionState {
    /// True if the interpreter and its state are kept for the next cell.
    pub kept: bool,
    /// True if an earlier interpreter of the session ended, and this cell started without its last state.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_lost: bool,
    /// Checkpoint from which the interpreter was restored for this cell then; absent if it started without state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored_from: Option<String>,
    /// Call that waits for an approval; absent if the cell is not suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<SuspendedCall>,
}

/// Call of a host tool that waits for an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SuspendedCall {
    /// Id of the call among all that wait for an approval.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Input as JSON text.
    pub input: String,
}

/// Call of a host tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ToolCall {
    /// Name of the tool, as the guest called it.
    pub name: String,
    /// Bytes of the input.
    pub input_bytes: u64,
    /// Bytes of the output.
    pub output_bytes: u64,
    /// Wall time of the call in milliseconds.
    pub duration_ms: f64,
    /// Kind of the failure; absent if the call succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl From<&crate::tools::ToolCall> for ToolCall {
    fn from(call: &crate::tools::ToolCall) -> Self {
        let crate::tools::ToolCall { name, input_bytes, output_bytes, wall, failure } = call;
        Self {
            name: name.clone(),
            input_bytes: *input_bytes,
            output_bytes: *output_bytes,
            duration_ms: millis(*wall),
            failure: failure.clone(),
        }
    }
}

const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl From<&report::RunReport> for RunReport {
    fn from(run: &report::RunReport) -> Self {
        let report::RunReport {
            id,
            outcome,
            stdout,
            stderr,
            results,
            results_dropped,
            tool_calls,
            tool_calls_dropped,
            error,
            files,
            usage,
            provenance,
            limits,
            enforcement,
            network,
            denials,
            missing,
            needs_escalation,
            unaudited,
            session,
            spilled,
            returned: _,
            missed: _,
            effects: _,
        } = run;
        let (stdout, stderr) = (Stream::of(stdout), Stream::of(stderr));
        Self {
            version: super::VERSION,
            success: run.is_success(),
            exit_code: run.exit_status(),
            duration_ms: millis(usage.wall),
            method: provenance.backend.to_string(),
            kind: run.result_kind().into(),
            job_id: id.clone(),
            retryable: run.result_kind().retryable(),
            outcome: outcome.into(),
            stdout: stdout.text,
            stdout_base64: stdout.base64,
            stdout_truncated: stdout.truncated,
            stderr: stderr.text,
            stderr_base64: stderr.base64,
            stderr_truncated: stderr.truncated,
            spilled: spilled.iter().map(SpilledOutput::from).collect(),
            results: results.iter().map(MimeBundle::from).collect(),
            results_dropped: *results_dropped,
            tool_calls: tool_calls.iter().map(ToolCall::from).collect(),
            tool_calls_dropped: *tool_calls_dropped,
            error: error.as_ref().map(GuestError::from),
            files: files.into(),
            usage: usage.into(),
            provenance: provenance.into(),
            limits: limits.into(),
            enforcement: enforcement.into(),
            network: (!network.is_none()).then(|| network.into()),
            denials: denials.iter().map(Denial::from).collect(),
            missing: missing.iter().map(Missing::from).collect(),
            needs_escalation: needs_escalation.as_ref().map(NeedsEscalation::from),
            unaudited: unaudited.clone(),
            session: session.as_ref().map(SessionState::from),
        }
    }
}

impl From<&report::SpilledOutput> for SpilledOutput {
    fn from(spilled: &report::SpilledOutput) -> Self {
        let report::SpilledOutput { stream, path, bytes } = spilled;
        Self { stream: stream.clone(), path: path.clone(), bytes: *bytes }
    }
}

impl From<&report::SessionState> for SessionState {
    fn from(session: &report::SessionState) -> Self {
        let report::SessionState { is_kept, was_lost, restored_from, suspended } = session.clone();
        let suspended =
            suspended.map(|crate::tools::SuspendedCall { id, name, input }| SuspendedCall { id, name, input });
        Self { kept: is_kept, was_lost, restored_from, suspended }
    }
}

impl From<&report::MimeBundle> for MimeBundle {
    fn from(bundle: &report::MimeBundle) -> Self {
        let report::MimeBundle { data, metadata, role, display_id } = bundle.clone();
        Self { data, metadata, role: role.into(), display_id }
    }
}

impl From<&guest_error::GuestError> for GuestError {
    fn from(error: &guest_error::GuestError) -> Self {
        let guest_error::GuestError { name, value, traceback, line, frames } = error.clone();
        Self { name, value, traceback, line, frames: frames.into_iter().map(ErrorFrame::from).collect() }
    }
}

impl From<guest_error::ErrorFrame> for ErrorFrame {
    fn from(frame: guest_error::ErrorFrame) -> Self {
        let guest_error::ErrorFrame { file, line, column, function, code } = frame;
        Self { file, line, column, function, code }
    }
}

impl From<&report::Denial> for Denial {
    fn from(denial: &report::Denial) -> Self {
        let report::Denial { what, detail, hint } = denial.clone();
        Self { what: what.into(), detail, hint }
    }
}

impl From<&report::Missing> for Missing {
    fn from(missing: &report::Missing) -> Self {
        let report::Missing { what, hint } = missing.clone();
        Self { what, hint }
    }
}

/// Requirement of a failed run that needs a stronger isolation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NeedsEscalation {
    /// Missing feature, and the reason that the job was not run again.
    pub reason: String,
    /// Command that runs the job with the missing feature; empty if the configuration accepts no suitable isolation.
    pub command: String,
}

impl From<&report::NeedsEscalation> for NeedsEscalation {
    fn from(needs: &report::NeedsEscalation) -> Self {
        let report::NeedsEscalation { reason, command } = needs.clone();
        Self { reason, command }
    }
}
