//! Records of jobs.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use codebox_core::path::MappedPath as _;
use codebox_core::{Job, ResultKind, RunReport, SecretValue, Source, mask_secrets};
use serde::{Deserialize, Serialize};

use super::Accepted;
use crate::audit::{Event, audited};

/// Record of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Id of the job: hexadecimal digits, greater for later jobs.
    pub id: String,
    /// Program: the name of a file or command, or `-c` or `-` for a text.
    pub program: String,
    /// First line of a text that is the program, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_line: Option<String>,
    /// Language of the program.
    pub language: String,
    /// Backend that was chosen.
    pub backend: String,
    /// Time of acceptance, in milliseconds since 1970.
    pub accepted_ms: u64,
    /// State of the job.
    pub state: State,
    /// Time at which the job ended or was found to have ended, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// Result kind, by its name in reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Exit status of the process that ran the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
}

/// End of a job, as written by the process that ran it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct End {
    ended_ms: u64,
    kind: String,
    exit_code: u8,
    /// Report for the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    report: Option<serde_json::Value>,
}

impl End {
    /// Creates an end with the current time.
    pub(super) fn now(kind: ResultKind, status: u8, report: Option<&RunReport>) -> Self {
        let report = report.map(audited);
        Self { ended_ms: millis(SystemTime::now()), kind: kind.as_str().to_owned(), exit_code: status, report }
    }

    /// Returns the end without the report.
    pub(super) fn without_report(self) -> Self {
        Self { report: None, ..self }
    }

    /// Returns the event of the end of a job.
    pub(super) fn event(&self, id: &str) -> Event {
        let Self { ended_ms, kind, exit_code, report } = self.clone();
        Event::Ended { id: id.to_owned(), ended_ms, kind, exit_code, report }
    }

    /// Parses an end from untrusted text; `None` if it is not valid.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let end: Self = serde_json::from_slice(text).ok()?;
        let is_word = end.kind.len() <= LONGEST_KIND && end.kind.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        is_word.then_some(end)
    }

    /// Returns the end as one line with a newline.
    pub(super) fn line(&self) -> Vec<u8> {
        line(self)
    }
}

/// State of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The job is running.
    Running,
    /// The process that ran the job was killed.
    Interrupted,
    /// The job has a recorded end.
    Finished,
}

impl State {
    /// Returns the state's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::Finished => "finished",
        }
    }
}

/// Maximum number of characters of a program's name in a record.
const LONGEST: usize = 100;

/// Maximum number of characters of a text in which secrets are searched.
const MAX_MASKED: usize = 4000;

/// Maximum number of characters of a result kind.
const LONGEST_KIND: usize = 40;

impl Record {
    pub(super) fn new(id: String, accepted_ms: u64, job: Accepted<'_>) -> Self {
        let Accepted { job, backend, attachment: _, tool: _ } = job;
        let language = &job.language;
        Self {
            id,
            program: masked_program(job).chars().take(LONGEST).collect(),
            first_line: first_line(job),
            language: language.to_string(),
            backend: backend.to_string(),
            accepted_ms,
            state: State::Running,
            ended_ms: None,
            kind: None,
            exit_code: None,
        }
    }

    pub(super) fn ended(&mut self, end: End) {
        let End { ended_ms, kind, exit_code, report: _ } = end;
        self.state = State::Finished;
        self.ended_ms = Some(ended_ms.clamp(self.accepted_ms, millis(SystemTime::now()).max(self.accepted_ms)));
        (self.kind, self.exit_code) = (Some(kind), Some(exit_code));
    }

    pub(super) fn interrupted(&mut self) {
        (self.state, self.ended_ms) = (State::Interrupted, Some(millis(SystemTime::now())));
    }

    /// Returns the record as one line with a newline.
    pub(super) fn line(&self) -> Vec<u8> {
        line(self)
    }
}

fn line(value: &impl Serialize) -> Vec<u8> {
    // Serialization cannot fail: the value contains only texts and numbers.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Returns the name of the program of a job, without secrets.
fn masked_program(job: &Job) -> String {
    let values: Vec<&str> = job.env.values().map(String::as_str).collect();
    mask_secrets(program(&job.source), &values)
}

/// Returns the first line with content of a text that is the program, without secrets.
fn first_line(job: &Job) -> Option<String> {
    let (Source::Inline(text) | Source::Stdin(text)) = &job.source else { return None };
    let secrets = job.grants.secrets.iter().filter_map(|secret| secret.value.as_ref()).map(SecretValue::as_str);
    // A value of several lines can be in the text line by line.
    let values: Vec<&str> = job
        .env
        .values()
        .map(String::as_str)
        .chain(secrets)
        .flat_map(|value| std::iter::once(value).chain(value.lines()))
        .collect();
    let end = text.char_indices().nth(MAX_MASKED).map_or(text.len(), |(end, _)| end);
    // A secret that the end of the line cuts is masked as a whole.
    let masked = mask_secrets(&text[..end], &values);
    let line = masked.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("#!"))?;
    Some(line.chars().take(LONGEST).collect())
}

/// Returns the name of a program.
fn program(source: &Source) -> &str {
    match source {
        Source::Inline(_) => "-c",
        Source::Stdin(_) => "-",
        Source::File { name, .. } => name.components().last().unwrap_or_default(),
        Source::Command(words) => words.first().map_or("", String::as_str),
        Source::Tool { name, .. } => name.as_str(),
    }
}

/// Returns the time since 1970 in milliseconds; 0 for earlier times.
pub(super) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns one record per job, the latest first. Of several records for a job, a recorded end takes precedence over an
/// interruption, and both over a running job.
pub(super) fn latest(records: Vec<Record>, most: usize) -> Vec<Record> {
    let mut jobs: BTreeMap<String, Record> = BTreeMap::new();
    for record in records {
        match jobs.get(&record.id) {
            Some(known) if known.state >= record.state => {}
            _ => drop(jobs.insert(record.id.clone(), record)),
        }
    }
    jobs.into_values().rev().take(most).collect()
}
