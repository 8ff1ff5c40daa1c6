use std::collections::BTreeMap;

use serde_json::Value;

use crate::limits::{Enforcement, Limits};
use crate::outcome::{Outcome, ResultKind, exit_status};

mod captured;
mod files;
mod network;
mod provenance;

pub use captured::{Captured, Rendered};
pub use files::{FileChanges, FileKind, OutFile, SkippedFile};
pub use network::{NetAttempt, NetUse, NetVerdict};
pub use provenance::{EscalatedFrom, Provenance, Usage};

/// Everything that a run left: what the guest did, and what held while it did.
///
/// Partial runs have complete reports: a guest that a limit ended has its output and files up to then.
#[derive(Debug, Clone, PartialEq)]
pub struct RunReport {
    /// The number under which it was accepted, where it was noted.
    pub id: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// Its standard output.
    pub stdout: Captured,
    /// Its standard error.
    pub stderr: Captured,
    /// Rich results, in the order they were shown.
    pub results: Vec<MimeBundle>,
    /// The exception or error that ended it, where the language has such a thing.
    pub error: Option<GuestError>,
    /// What it did to files.
    pub files: FileChanges,
    /// What it used.
    pub usage: Usage,
    /// What ran it, and why that.
    pub provenance: Provenance,
    /// The limits in force.
    pub limits: Limits,
    /// How well they were held, and which walls stood.
    pub enforcement: Enforcement,
    /// What it did on the network.
    pub network: NetUse,
    /// What it asked for and was refused.
    pub denials: Vec<Denial>,
    /// What it lacked here, and how to get it.
    pub missing: Vec<Missing>,
    /// Set where it ended badly for want of something that only a stronger isolation has, and was not run again there.
    pub needs_escalation: Option<NeedsEscalation>,
    /// Whether it may have changed something outside of its sandbox; not told to users.
    pub effects: Effects,
}

impl RunReport {
    /// A report of `outcome` that says nothing else yet.
    #[must_use]
    pub fn new(outcome: Outcome, provenance: Provenance, limits: Limits) -> Self {
        Self {
            id: None,
            outcome,
            stdout: Captured::default(),
            stderr: Captured::default(),
            results: Vec::new(),
            error: None,
            files: FileChanges::default(),
            usage: Usage::default(),
            provenance,
            limits,
            enforcement: Enforcement::default(),
            network: NetUse::default(),
            denials: Vec::new(),
            missing: Vec::new(),
            needs_escalation: None,
            effects: Effects::None,
        }
    }

    /// The one word for how it ended.
    #[must_use]
    pub const fn result_kind(&self) -> ResultKind {
        self.outcome.result_kind()
    }

    /// The exit status of a process that ran it.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        exit_status(&self.outcome)
    }

    /// Whether the guest ended by itself with status 0.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        self.outcome.is_success()
    }
}

/// One rich result in several forms, keyed by MIME type, as Jupyter keeps them.
///
/// Text forms are JSON strings, `application/json` and its like are JSON values, binary forms are base64 strings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MimeBundle {
    /// The forms.
    pub data: BTreeMap<String, Value>,
    /// Notes on the forms, such as an image's size.
    pub metadata: BTreeMap<String, Value>,
    /// Whether it was shown or is what the program came to.
    pub role: ResultRole,
}

/// What a rich result is to its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ResultRole {
    /// Shown along the way.
    #[default]
    Display,
    /// The value of the program's last expression.
    Value,
}

/// An exception or error that ended a guest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GuestError {
    /// Its type, such as `ZeroDivisionError`.
    pub name: String,
    /// What it says, such as `division by zero`.
    pub value: String,
    /// The traceback, one entry a line.
    pub traceback: Vec<String>,
    /// The line of the user's program that it came from.
    pub line: Option<u32>,
}

impl GuestError {
    /// The [name](Self::name) where there is no such command.
    pub const NOT_FOUND: &str = "CommandNotFound";
    /// The [name](Self::name) where the system cannot start a command.
    pub const NOT_STARTED: &str = "CommandNotStarted";

    /// Whether it says that a command could not be started, so that nothing ran.
    #[must_use]
    pub fn is_not_started(&self) -> bool {
        [Self::NOT_FOUND, Self::NOT_STARTED].contains(&self.name.as_str())
    }
}

/// Something that the guest asked for and was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// What kind of thing.
    pub what: DenialKind,
    /// Which one.
    pub detail: String,
    /// How to allow it.
    pub hint: String,
}

/// What kind of thing was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DenialKind {
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

/// What a run that ended badly here would take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeedsEscalation {
    /// What it lacked, and why it was not run again.
    pub reason: String,
    /// The command that runs it where it has that; empty where the configuration accepts no such place.
    pub command: String,
}

/// Whether a run changed something outside of its sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Effects {
    /// Nothing that it did is seen anywhere but in its output: running it again is as if it had not run.
    #[default]
    None,
    /// It may have.
    Possible,
}

/// Something that the program needed and this isolation cannot give, such as threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// What it needed.
    pub what: String,
    /// How to get it.
    pub hint: String,
}

impl Missing {
    /// A module or package that the program imports and that its interpreter does not find.
    #[must_use]
    pub fn module(name: &str) -> Self {
        let hint = "the runtime does not have it: name the package that does (--with NAME), or grant a directory that holds it and where the program looks for modules, such as the script's";
        Self { what: format!("the module {name}"), hint: hint.to_owned() }
    }
}
