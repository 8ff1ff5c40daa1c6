use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::files::FileChanges;
use super::limits::{Enforcement, LimitsInForce};
use super::outcome::{Outcome, ResultName, words};
use super::output::{Stream, Truncation};
use super::provenance::{Provenance, Usage, millis};
use crate::report;

/// What a run answers with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunReport {
    /// The version of this form: 1.
    pub version: u32,
    /// The number under which `codebox jobs` has it, where it was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// Whether the guest ended by itself with status 0.
    pub success: bool,
    /// The exit status of the process that ran it.
    pub exit_code: u8,
    /// Milliseconds from the program's start to its end.
    pub duration_ms: f64,
    /// The backend that ran it.
    pub method: String,
    /// The one word for how it ended.
    pub kind: ResultName,
    /// Whether the same request may well end differently later.
    pub retryable: bool,
    /// How it ended.
    pub outcome: Outcome,
    /// Its standard output; lossy if `stdout_base64` is there.
    pub stdout: String,
    /// The bytes of its standard output, if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_base64: Option<String>,
    /// What is missing from its standard output, if anything is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_truncated: Option<Truncation>,
    /// Its standard error; lossy if `stderr_base64` is there.
    pub stderr: String,
    /// The bytes of its standard error, if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<String>,
    /// What is missing from its standard error, if anything is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_truncated: Option<Truncation>,
    /// Rich results, in the order they were shown.
    pub results: Vec<MimeBundle>,
    /// The exception or error that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<GuestError>,
    /// What it did to files.
    pub files: FileChanges,
    /// What it used.
    pub usage: Usage,
    /// What ran it, and why that.
    pub provenance: Provenance,
    /// The limits in force.
    pub limits: LimitsInForce,
    /// How well they were held, and which walls stood.
    pub enforcement: Enforcement,
    /// What it asked for and was refused.
    pub denials: Vec<Denial>,
    /// What it lacked here, and how to get it.
    pub missing: Vec<Missing>,
    /// What it would take, where it ended badly for want of something that a stronger isolation has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_escalation: Option<NeedsEscalation>,
}

/// One rich result in several forms, keyed by MIME type; binary forms are base64.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MimeBundle {
    /// The forms.
    pub data: BTreeMap<String, Value>,
    /// Notes on the forms.
    pub metadata: BTreeMap<String, Value>,
    /// Whether it was shown or is what the program came to.
    pub role: RoleWord,
}

words! {
    /// What a rich result is to its program.
    #[serde(rename_all = "snake_case")]
    RoleWord of report::ResultRole {
        /// Shown along the way.
        Display,
        /// The value of the program's last expression.
        Value,
    }
}

/// An exception or error that ended a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuestError {
    /// Its type.
    pub name: String,
    /// What it says.
    pub value: String,
    /// The traceback, one entry a line.
    pub traceback: Vec<String>,
    /// The line of the user's program that it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// Something that the guest asked for and was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Denial {
    /// What kind of thing.
    pub what: DenialWord,
    /// Which one.
    pub detail: String,
    /// How to allow it.
    pub hint: String,
}

words! {
    /// What kind of thing was refused.
    #[serde(rename_all = "snake_case")]
    DenialWord of report::DenialKind {
        /// A file or directory.
        Fs,
        /// A network connection.
        Net,
        /// An environment variable.
        Env,
        /// A power of the operating system.
        Capability,
        /// A host tool.
        Tool,
    }
}

/// Something that the program needed and this isolation cannot give.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    /// What it needed.
    pub what: String,
    /// How to get it.
    pub hint: String,
}

impl From<&report::RunReport> for RunReport {
    fn from(run: &report::RunReport) -> Self {
        let report::RunReport {
            id,
            outcome,
            stdout,
            stderr,
            results,
            error,
            files,
            usage,
            provenance,
            limits,
            enforcement,
            denials,
            missing,
            needs_escalation,
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
            results: results.iter().map(MimeBundle::from).collect(),
            error: error.as_ref().map(GuestError::from),
            files: files.into(),
            usage: usage.into(),
            provenance: provenance.into(),
            limits: limits.into(),
            enforcement: enforcement.into(),
            denials: denials.iter().map(Denial::from).collect(),
            missing: missing.iter().map(Missing::from).collect(),
            needs_escalation: needs_escalation.as_ref().map(NeedsEscalation::from),
        }
    }
}

impl From<&report::MimeBundle> for MimeBundle {
    fn from(bundle: &report::MimeBundle) -> Self {
        let report::MimeBundle { data, metadata, role } = bundle.clone();
        Self { data, metadata, role: role.into() }
    }
}

impl From<&report::GuestError> for GuestError {
    fn from(error: &report::GuestError) -> Self {
        let report::GuestError { name, value, traceback, line } = error.clone();
        Self { name, value, traceback, line }
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

/// What a run that ended badly would take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NeedsEscalation {
    /// What it lacked, and why it was not run again.
    pub reason: String,
    /// The command that runs it where it has that; empty where the configuration accepts no such place.
    pub command: String,
}

impl From<&report::NeedsEscalation> for NeedsEscalation {
    fn from(needs: &report::NeedsEscalation) -> Self {
        let report::NeedsEscalation { reason, command } = needs.clone();
        Self { reason, command }
    }
}
