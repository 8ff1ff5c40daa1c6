//! Events that the audit log records.

use codebox_core::path::MappedPath as _;
use codebox_core::wire::v1::{self, LimitsInForce};
use codebox_core::{
    Access, Attachment, BackendId, Grants, GuestPath, Job, RunReport, RunnerError, ShimCall, Source, ToolName,
    mask_secrets, mask_words,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Maximum number of characters of a program's name.
const LONGEST: usize = 200;

/// Maximum number of items in each list of a report.
const MAX_LISTED: usize = 100;

/// Maximum length of a report in bytes.
const MAX_REPORT: usize = 128 << 10;

/// Maximum length of the text of a program in bytes.
const MAX_TEXT: usize = 64 << 10;

/// Event in the audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// A program is about to run.
    Started(Box<Started>),
    /// A request was refused before its program could run.
    Refused {
        /// User, by the number of the system; `None` on systems without numbers.
        uid: Option<u32>,
        /// Process that refused it.
        pid: u32,
        /// Name of the file or the command, or `-c` or `-` for a text.
        program: String,
        /// Tool of which it was a call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// Result kind, by its name in reports.
        kind: String,
        /// Reason, in one line, with words that look like secrets masked.
        reason: String,
    },
    /// A program has ended.
    Ended {
        /// Id of the job.
        id: String,
        /// Time of the end, in milliseconds since 1970.
        ended_ms: u64,
        /// Result kind, by its name in reports.
        kind: String,
        /// Exit status of the process that ran the job.
        exit_code: u8,
        /// Report without output, results, values and texts of the program: resource use, files, network, denials, tool calls.
        report: Option<Value>,
    },
    /// The process that ran a program was killed.
    Interrupted {
        /// Id of the job.
        id: String,
    },
    /// A session was created, changed or ended.
    Session {
        /// Id of the session.
        session: String,
        /// Action.
        action: SessionAction,
        /// Session or name that the action refers to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        other: Option<String>,
    },
    /// A box was started or stopped, or a command with a shim was called in it.
    Box {
        /// Name of the box.
        name: String,
        /// Action.
        action: BoxAction,
        /// The box that is started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start: Option<Box<BoxStarted>>,
        /// The call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CommandCall>,
        /// Number of calls before this event that have no record, because there were too many.
        #[serde(default, skip_serializing_if = "is_zero")]
        omitted: u64,
    },
    /// The user has called a tool, which runs next.
    Called(Box<Called>),
    /// A call of a tool by the user has ended.
    Returned {
        /// Id of the call.
        id: String,
        /// `ok`, or the kind of the failure.
        kind: String,
        /// Length of the output in bytes, as JSON text.
        output_bytes: u64,
        /// Wall-clock time in milliseconds.
        wall_ms: u64,
        /// Id of the job, or of the command of a box, that ran for the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        job: Option<String>,
    },
    /// The log before this one was damaged, and the user has begun a new one.
    Reset {
        /// Name of the file with the log before, in the same directory.
        kept: String,
        /// Damage.
        reason: String,
    },
    /// Records were removed by the user. The first one of the rest follows the record with this digest.
    Pruned {
        /// Number of removed records.
        records: u64,
        /// Digest of the last removed record.
        last: String,
    },
}

/// Returns the start of a text. It is masked before: a part of a secret would not be recognized.
fn shortened(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Returns the parts of a report that the audit log has. Long lists are cut, with the number of all items in `counts`.
pub(crate) fn audited(report: &RunReport) -> Value {
    let mut value = json!({
        "outcome": v1::Outcome::from(&report.outcome),
        "usage": v1::Usage::from(&report.usage),
        "provenance": v1::Provenance::from(&report.provenance),
        "files": v1::FileChanges::from(&report.files),
        "network": (!report.network.is_none()).then(|| v1::NetUse::from(&report.network)),
        "denials": report.denials.iter().map(v1::Denial::from).collect::<Vec<_>>(),
        "tool_calls": report.tool_calls.iter().map(v1::ToolCall::from).collect::<Vec<_>>(),
    });
    let mut counts = serde_json::Map::new();
    if let Some(parts) = value.as_object_mut() {
        for name in ["denials", "tool_calls"] {
            parts.get_mut(name).into_iter().for_each(|list| cut(name, list, &mut counts));
        }
        for part in ["files", "network"] {
            for (name, list) in parts.get_mut(part).and_then(Value::as_object_mut).into_iter().flatten() {
                cut(name, list, &mut counts);
            }
        }
        // Parts without content.
        parts.retain(|_, part| !(part.is_null() || part.as_array().is_some_and(Vec::is_empty)));
        if !counts.is_empty() {
            parts.insert("counts".to_owned(), Value::Object(counts));
        }
    }
    if value.to_string().len() > MAX_REPORT {
        json!({ "outcome": value["outcome"], "is_too_long": true })
    } else {
        value
    }
}

fn cut(name: &str, list: &mut Value, counts: &mut serde_json::Map<String, Value>) {
    if let Value::Array(items) = list
        && items.len() > MAX_LISTED
    {
        counts.insert(name.to_owned(), items.len().into());
        items.truncate(MAX_LISTED);
    }
}

impl Event {
    /// Describes a request that was refused, in which these values are masked.
    #[must_use]
    pub fn refused(program: &str, tool: Option<&ToolName>, values: &[&str], error: &RunnerError) -> Self {
        let cut = |text: &str| shortened(&mask_secrets(text, values));
        let (kind, reason) = (error.kind().as_str().to_owned(), cut(error.message()));
        let (program, tool) = (cut(program), tool.map(ToString::to_string));
        Self::Refused { uid: user(), pid: std::process::id(), program, tool, kind, reason }
    }

    /// Describes a call of a tool, whose input is JSON text.
    #[must_use]
    pub fn called(id: String, tool: &ToolName, input: &[u8]) -> Self {
        let (sha256, bytes) = (codebox_files::hex(&Sha256::digest(input)), input.len() as u64);
        Self::Called(Box::new(Called {
            id,
            uid: user(),
            pid: std::process::id(),
            tool: tool.to_string(),
            sha256,
            bytes,
        }))
    }
}

/// Action on a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionAction {
    /// It was created.
    Created,
    /// It was created with the state of another one.
    Forked,
    /// It was created from a file.
    Imported,
    /// It returned to the state of a checkpoint.
    Restored,
    /// Its state was written to a file.
    Exported,
    /// It was ended.
    Stopped,
}

/// Action on a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoxAction {
    /// It was started.
    Started,
    /// A command with a shim was called in it.
    Called,
    /// It was stopped.
    Stopped,
}

/// Call of a command with a shim. The agent in the box reports it, so a program of the box that has taken the agent over can invent
/// and hide calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandCall {
    /// First word of the command line.
    pub name: String,
    /// The sha256 of the start of the command line, with a zero byte after each word.
    pub sha256: String,
    /// Exit status.
    pub status: i32,
    /// Wall-clock time in milliseconds.
    pub wall_ms: u64,
    /// True if a rule of the box forbade it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_denied: bool,
}

impl CommandCall {
    /// Describes a call. `masked` returns a text in which secrets are masked.
    #[must_use]
    pub fn of(call: &ShimCall, masked: &dyn Fn(&str) -> String) -> Self {
        let mut digest = Sha256::new();
        for word in &call.argv {
            digest.update(word);
            digest.update([0]);
        }
        let name = call.argv.first().map(|word| String::from_utf8_lossy(word).into_owned()).unwrap_or_default();
        Self {
            name: shortened(&masked(&name)),
            sha256: digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect(),
            status: call.status,
            wall_ms: u64::try_from(call.wall.as_millis()).unwrap_or(u64::MAX),
            is_denied: call.is_denied,
        }
    }
}

/// Box that is about to start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoxStarted {
    /// User, by the number of the system; `None` on systems without numbers.
    pub uid: Option<u32>,
    /// Process that keeps the box.
    pub pid: u32,
    /// Backend.
    pub backend: String,
    /// Image that the request names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Packages, as they were requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// Grants.
    pub grants: GrantsGiven,
    /// Limits.
    pub limits: LimitsInForce,
}

impl BoxStarted {
    /// Describes a box whose commands have the grants and limits of a job.
    #[must_use]
    pub fn new(job: &Job, image: Option<String>, backend: &BackendId) -> Self {
        Self {
            uid: user(),
            pid: std::process::id(),
            backend: backend.to_string(),
            image,
            packages: job.packages.clone(),
            // The process of the box has the values of all variables, and not their origin.
            grants: GrantsGiven { env: job.env.keys().cloned().collect(), ..GrantsGiven::from(&job.grants) },
            limits: LimitsInForce::from(&job.limits),
        }
    }
}

/// Call of a tool by the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Called {
    /// Id of the call.
    pub id: String,
    /// User, by the number of the system; `None` on systems without numbers.
    pub uid: Option<u32>,
    /// Process that makes the call.
    pub pid: u32,
    /// Name of the tool.
    pub tool: String,
    /// The sha256 of the input, JSON text.
    pub sha256: String,
    /// Length of the input in bytes.
    pub bytes: u64,
}

/// Program that is about to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// Id of the job.
    pub id: String,
    /// True if the job runs again, after its backend lacked a feature.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// User, by the number of the system; `None` on systems without numbers.
    pub uid: Option<u32>,
    /// Process that runs the job.
    pub pid: u32,
    /// Session of which the program is a cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Box in which the program is a command.
    #[serde(default, rename = "box", skip_serializing_if = "Option::is_none")]
    pub in_box: Option<String>,
    /// Tool that the program implements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The program.
    pub program: Program,
    /// Backend that was chosen.
    pub backend: String,
    /// Packages, as they were requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// Grants.
    pub grants: GrantsGiven,
    /// Limits.
    pub limits: LimitsInForce,
}

/// Program in the audit log: its name and digests, and no text of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Name of the file, the command or the tool, or `-c` or `-` for a text.
    pub name: String,
    /// Language.
    pub language: String,
    /// The sha256 of its text, or of its command line with a zero byte after each word.
    pub sha256: String,
    /// Length of the same in bytes.
    pub bytes: u64,
    /// Number of arguments.
    pub arguments: usize,
    /// Its text, or its command line as JSON, if the configuration requests it: the first bytes, with granted values and words that look like
    /// secrets masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Grants in the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GrantsGiven {
    /// Directories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dirs: Vec<DirGranted>,
    /// Hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Names of variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretGranted>,
    /// Host tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Running container, if codebox has not made the one in which the program runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerGiven>,
}

/// Running container in the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerGiven {
    /// Id.
    pub id: String,
    /// Description, such as `the dev container of /home/me/project`.
    pub origin: String,
    /// Powers of the container over the machine, with their settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub powers: Vec<String>,
}

impl From<&Attachment> for ContainerGiven {
    fn from(attachment: &Attachment) -> Self {
        let Attachment { container, origin, user: _, cwd: _, env: _ } = attachment;
        let powers = container.powers.iter().map(ToString::to_string).collect();
        Self { id: container.id.clone(), origin: origin.clone(), powers }
    }
}

/// Directory grant in the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirGranted {
    /// Directory of the host.
    pub host: String,
    /// Path in the guest.
    pub guest: String,
    /// `ro` or `rw`, or `copy` for a project.
    pub access: String,
}

/// Secret in the audit log, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretGranted {
    /// Name.
    pub name: String,
    /// Hosts that receive the value.
    pub hosts: Vec<String>,
}

impl Started {
    /// Describes a job of this process.
    #[must_use]
    pub fn new(id: &str, job: &Job, backend: &BackendId) -> Self {
        Self {
            id: id.to_owned(),
            again: false,
            uid: user(),
            pid: std::process::id(),
            session: None,
            in_box: None,
            tool: None,
            program: Program::of(job),
            backend: backend.to_string(),
            packages: job.packages.clone(),
            grants: GrantsGiven::from(&job.grants),
            limits: LimitsInForce::from(&job.limits),
        }
    }

    /// Adds the text of the program.
    #[must_use]
    pub(crate) fn with_text(mut self, job: &Job) -> Self {
        let values = values(job);
        let text = match &job.source {
            Source::Command(words) => {
                let mut words = words.clone();
                mask_words(&mut words, &values);
                json!(words).to_string()
            }
            source => source.text().map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default(),
        };
        let mut text = mask_secrets(&text, &values);
        text.truncate(text.floor_char_boundary(MAX_TEXT));
        self.program.text = Some(text);
        self
    }
}

impl Program {
    fn of(job: &Job) -> Self {
        let mut digest = Sha256::new();
        let mut bytes = 0;
        let mut add = |part: &[u8]| {
            digest.update(part);
            bytes += part.len() as u64;
        };
        let name = match &job.source {
            Source::Inline(text) | Source::Stdin(text) => {
                add(text.as_bytes());
                if matches!(job.source, Source::Inline(_)) { "-c" } else { "-" }
            }
            Source::File { name, text, .. } => {
                add(text);
                name.components().last().unwrap_or_default()
            }
            Source::Command(words) => {
                words.iter().for_each(|word| {
                    add(word.as_bytes());
                    add(b"\0");
                });
                words.first().map_or("", String::as_str)
            }
            Source::Tool { name, input } => {
                add(input.to_string().as_bytes());
                name.as_str()
            }
        };
        Self {
            name: shortened(&mask_secrets(name, &values(job))),
            language: job.language.to_string(),
            sha256: codebox_files::hex(&digest.finalize()),
            bytes,
            arguments: job.args.len(),
            text: None,
        }
    }
}

/// Returns the values of the variables of a job, which are masked.
fn values(job: &Job) -> Vec<&str> {
    job.env.values().map(String::as_str).collect()
}

impl From<&Grants> for GrantsGiven {
    fn from(grants: &Grants) -> Self {
        // A further grant must be added here.
        let Grants { dirs, project, net, env, secrets, tools } = grants;
        let copied = project.iter().map(|host| DirGranted {
            host: host.to_string(),
            guest: GuestPath::work().to_string(),
            access: "copy".to_owned(),
        });
        let texts = |items: &[codebox_core::NetGrant]| items.iter().map(ToString::to_string).collect();
        Self {
            dirs: dirs
                .iter()
                .map(|dir| DirGranted {
                    host: dir.host.to_string(),
                    guest: dir.guest.to_string(),
                    access: if dir.access == Access::ReadWrite { "rw" } else { "ro" }.to_owned(),
                })
                .chain(copied)
                .collect(),
            hosts: texts(net),
            env: env.iter().map(ToString::to_string).collect(),
            secrets: secrets
                .iter()
                .map(|secret| SecretGranted { name: secret.name.to_string(), hosts: texts(&secret.hosts) })
                .collect(),
            tools: tools.iter().map(ToString::to_string).collect(),
            container: None,
        }
    }
}

#[cfg(unix)]
fn user() -> Option<u32> {
    Some(rustix::process::getuid().as_raw())
}

#[cfg(not(unix))]
fn user() -> Option<u32> {
    None
}
