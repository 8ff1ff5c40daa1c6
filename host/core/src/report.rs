use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use serde_json::Value;

use crate::guest_error::GuestError;
use crate::language::package_of_module;
use crate::limits::{Enforcement, Limits};
use crate::outcome::{Outcome, ResultKind, exit_status};
use crate::path::GuestPath;
use crate::tools::{SuspendedCall, ToolCall};

mod captured;
mod files;
mod network;
mod provenance;

pub use captured::{CapturedOutput, JsonBytes, SpilledOutput};
pub use files::{FileChanges, FileKind, OutFile, SkippedFile};
pub use network::{NetAttempt, NetVerdict, NetworkUsage};
pub use provenance::{EscalatedFrom, Provenance, Usage};

/// Report of a run: the guest's actions, and the limits and sandbox layers in effect.
///
/// A partial run has a complete report: if a limit ended the guest, the report contains its output and files up to that
/// point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// Job id under which the run was accepted, if it was recorded.
    pub id: Option<String>,
    /// Outcome of the run.
    pub outcome: Outcome,
    /// Standard output of the guest.
    pub stdout: CapturedOutput,
    /// Standard error of the guest.
    pub stderr: CapturedOutput,
    /// Rich results, in the order in which they were shown.
    pub results: Vec<MimeBundle>,
    /// Number of rich results that were dropped because they exceed the maximum number or size.
    pub results_dropped: u64,
    /// Calls of host tools, in the order in which they ended.
    pub tool_calls: Vec<ToolCall>,
    /// Number of calls that are not listed because there were too many.
    pub tool_calls_dropped: u64,
    /// Exception or error that ended the guest, if the language has exceptions.
    pub error: Option<GuestError>,
    /// Changes to files.
    pub files: FileChanges,
    /// Files that the job returns, in the order of [`Job::returns`](crate::Job::returns).
    pub returned: Vec<ReturnedFile>,
    /// Files with the whole output of streams of which the caller gets a part.
    pub spilled: Vec<SpilledOutput>,
    /// Resource use.
    pub usage: Usage,
    /// Backend that ran the job, and the reason that it was chosen.
    pub provenance: Provenance,
    /// Limits in force.
    pub limits: Limits,
    /// Enforcement levels of the limits, and states of the sandbox layers.
    pub enforcement: Enforcement,
    /// Network activity.
    pub network: NetworkUsage,
    /// Requests of the guest that were refused.
    pub denials: Vec<Denial>,
    /// Requirements of the program that were not met, with hints.
    pub missing: Vec<Missing>,
    /// Files that the program missed, for advice; not part of the JSON form.
    #[serde(default)]
    pub missed: MissedFiles,
    /// Set if the run failed because it needs a stronger isolation, and was not repeated in one.
    pub needs_escalation: Option<NeedsEscalation>,
    /// Reason that the run is not in the audit log, although it should be.
    pub unaudited: Option<String>,
    /// State of the session after the run; `None` for a run outside of sessions.
    pub session: Option<SessionState>,
    /// Effects of the run outside of its sandbox; not shown to users.
    pub effects: Effects,
}

impl RunReport {
    /// Creates a report with `outcome` whose other results are still empty.
    #[must_use]
    pub fn new(outcome: Outcome, provenance: Provenance, limits: Limits) -> Self {
        Self {
            id: None,
            outcome,
            stdout: CapturedOutput::default(),
            stderr: CapturedOutput::default(),
            results: Vec::new(),
            results_dropped: 0,
            tool_calls: Vec::new(),
            tool_calls_dropped: 0,
            error: None,
            files: FileChanges::default(),
            returned: Vec::new(),
            spilled: Vec::new(),
            usage: Usage::default(),
            provenance,
            limits,
            enforcement: Enforcement::default(),
            network: NetworkUsage::default(),
            denials: Vec::new(),
            missing: Vec::new(),
            missed: MissedFiles::default(),
            needs_escalation: None,
            unaudited: None,
            session: None,
            effects: Effects::None,
        }
    }

    /// Returns the result kind of the outcome.
    #[must_use]
    pub const fn result_kind(&self) -> ResultKind {
        self.outcome.result_kind()
    }

    /// Returns the exit status of a process that ran the job.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        exit_status(&self.outcome)
    }

    /// Returns true if the run was a cell of a session, whose interpreter is kept for the next cell.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_kept)
    }

    /// Returns true if the guest exited with status 0.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        self.outcome.is_success()
    }
}

/// File of a private directory that a report returns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnedFile {
    /// Path in the guest.
    pub path: GuestPath,
    /// Content, or the reason that it is not returned.
    pub content: Result<ByteBuf, String>,
}

impl ReturnedFile {
    /// Maximum number of files that a report returns.
    pub const MAX_COUNT: usize = 64;
    /// Maximum number of bytes that a report returns.
    pub const MAX_BYTES: u64 = 16 << 20;
}

/// Session after one of its cells.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionState {
    /// True if the interpreter and its state are kept for the next cell.
    pub is_kept: bool,
    /// True if an earlier interpreter of the session ended, and this cell started without its last state.
    pub was_lost: bool,
    /// Checkpoint from which the interpreter was restored for this cell then; `None` if it started without state.
    pub restored_from: Option<String>,
    /// Call that waits for an approval; `None` if the cell is not suspended.
    pub suspended: Option<SuspendedCall>,
}

/// One rich result in several forms, keyed by MIME type, as in Jupyter.
///
/// Text forms are JSON strings, `application/json` and similar types are JSON values, binary forms are base64 strings.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MimeBundle {
    /// Forms of the result.
    pub data: BTreeMap<String, Value>,
    /// Metadata of the forms, such as an image's size.
    pub metadata: BTreeMap<String, Value>,
    /// Role of the result in its program.
    pub role: ResultRole,
    /// Name by which the program can replace the forms of the result later; at most [`MAX_ID_LEN`](Self::MAX_ID_LEN) bytes.
    #[serde(default)]
    pub display_id: Option<String>,
}

impl MimeBundle {
    /// Maximum length of a [`display_id`](Self::display_id) in bytes.
    pub const MAX_ID_LEN: usize = 256;

    /// Returns true if both have a [`display_id`](Self::display_id), and the same.
    #[must_use]
    pub fn has_id_of(&self, other: &Self) -> bool {
        self.display_id.is_some() && self.display_id == other.display_id
    }

    /// Gives an earlier result the forms of this one, if both have the same identifier. Returns true then.
    pub fn replace_in(&self, earlier: &mut Self) -> bool {
        let is_same = self.has_id_of(earlier);
        if is_same {
            earlier.data.clone_from(&self.data);
            earlier.metadata.clone_from(&self.metadata);
        }
        is_same
    }
}

/// Role of a rich result in its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum ResultRole {
    /// Output that the program displayed while it ran.
    #[default]
    Display,
    /// Value of the program's last expression.
    Value,
    /// New forms of what an earlier cell of the session has shown with the same [`display_id`](MimeBundle::display_id). Results of
    /// the same run have the new forms themselves.
    Update,
}

/// Files below the working directory and that of the program which the program did not find, or was not permitted to write. Known of
/// programs in WebAssembly alone. The names are those that the program has used.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MissedFiles {
    /// Absolute guest paths that do not exist; at most [`MAX_PATHS`](Self::MAX_PATHS).
    pub absent: Vec<String>,
    /// Absolute guest paths that may not be written; at most as many.
    pub unwritable: Vec<String>,
    /// True if the program has listed its working directory.
    pub lists_work_dir: bool,
    /// True if the program has shown a figure while no [results](crate::Job::results) are collected.
    #[serde(default)]
    pub shows_figures: bool,
}

impl MissedFiles {
    /// Maximum number of paths in each list.
    pub const MAX_PATHS: usize = 64;
    /// Maximum length of a path in bytes.
    pub const MAX_LEN: usize = 512;

    /// Removes what is above the maximum number or length.
    pub fn limit(&mut self) {
        for list in [&mut self.absent, &mut self.unwritable] {
            list.retain(|path| path.len() <= Self::MAX_LEN);
            list.truncate(Self::MAX_PATHS);
        }
    }
}

/// Request of the guest that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// Kind of the resource.
    pub what: DenialKind,
    /// Resource that was requested.
    pub detail: String,
    /// Hint on how to allow the request.
    pub hint: String,
}

/// Kind of a refused resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DenialKind {
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

/// Requirement of a failed run that needs a stronger isolation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeedsEscalation {
    /// Missing feature, and the reason that the job was not run again.
    pub reason: String,
    /// Command that runs the job with the missing feature; empty if the configuration accepts no suitable isolation.
    pub command: String,
}

/// Effects of a run outside of its sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Effects {
    /// No effect except the output: the job can run again as if it had not run before.
    #[default]
    None,
    /// Possible effects.
    Possible,
}

/// Requirement of the program that this isolation cannot meet, such as threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Missing feature.
    pub what: String,
    /// Hint on how to obtain the feature.
    pub hint: String,
}

impl Missing {
    /// `what` of a program that imports modules by URLs, as Deno does.
    pub const IMPORTS_OF_URLS: &str = "imports of URLs";
    /// `what` of a program that uses the API of Deno.
    pub const API_OF_DENO: &str = "Deno's API";
    /// `what` of a program that uses the API of Bun.
    pub const API_OF_BUN: &str = "Bun's API";

    /// Creates the entry of a package of npm, with its version or without, that the program imports and that its interpreter does not find.
    /// `None` for a text that names no package: programs choose it, and users paste the hint.
    #[must_use]
    pub fn npm_package(package: &str) -> Option<Self> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~@/^".contains(&byte);
        let is_name = !package.is_empty() && package.len() <= 214 && !package.starts_with('-');
        if !is_name || !package.bytes().all(is_part) {
            return None;
        }
        let at = package.rfind('@').filter(|at| *at > 0);
        let name = &package[..at.unwrap_or(package.len())];
        let hint = format!(
            "it is not part of the runtime: add its package with --with {package}, or grant a directory that has it in node_modules"
        );
        Some(Self { what: format!("the module {name}"), hint })
    }

    /// Creates the entry of a module of Python, or of a language without packages, that the program imports and that its interpreter does
    /// not find.
    #[must_use]
    pub fn module(name: &str) -> Self {
        let package = match package_of_module(name) {
            Some(package) => format!("add its package with --with {package}"),
            None => "add the package that provides it (--with NAME)".to_owned(),
        };
        let hint = format!(
            "it is not part of the runtime: {package}, or grant a directory that contains it on the program's module path, such as the script's directory"
        );
        Self { what: format!("the module {name}"), hint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_nothing_but_packages() {
        let npm = |text: &str| Missing::npm_package(text).map(|missing| (missing.what, missing.hint));
        let (what, hint) = npm("@a/b@^2").expect("a package");
        assert!(what == "the module @a/b" && hint.contains("--with @a/b@^2,"), "{what}: {hint}");
        for text in ["", "-x", "a b", "x; rm -rf .", "$(id)", "a\nb", &"x".repeat(300)] {
            assert_eq!(npm(text), None, "{text}");
        }
        assert!(Missing::module("yaml").hint.contains("--with pyyaml,"));
        assert!(Missing::module("$(id)").hint.contains("(--with NAME)"));
    }
}
