//! What is noted of a job.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use codebox_core::path::MappedPath as _;
use codebox_core::{ResultKind, Source};
use serde::{Deserialize, Serialize};

use super::Accepted;

/// A job, as far as it is noted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its number: hexadecimal digits, later ones greater.
    pub id: String,
    /// What it ran: a file's name, a command's, or where its text came from.
    pub program: String,
    /// Its language.
    pub language: String,
    /// The backend that was chosen.
    pub backend: String,
    /// When it was accepted, in milliseconds since 1970.
    pub accepted_ms: u64,
    /// What became of it.
    pub state: State,
    /// When it ended, or was found to have ended, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// How it ended, in the word that reports have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The exit status of the process that ran it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
}

/// The end of a job, as the process writes it that ran the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct End {
    ended_ms: u64,
    kind: String,
    exit_code: u8,
}

impl End {
    /// An end at this moment.
    pub(super) fn now(kind: ResultKind, status: u8) -> Self {
        Self { ended_ms: millis(SystemTime::now()), kind: kind.as_str().to_owned(), exit_code: status }
    }

    /// Reads an end that can hold anything; `None` if it is not one.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let end: Self = serde_json::from_slice(text).ok()?;
        let is_word = end.kind.len() <= LONGEST_KIND && end.kind.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        is_word.then_some(end)
    }

    /// One line, its end included.
    pub(super) fn line(&self) -> Vec<u8> {
        line(self)
    }
}

/// What became of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It runs.
    Running,
    /// The process that ran it was killed.
    Interrupted,
    /// It came to an end that was noted.
    Finished,
}

impl State {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::Finished => "finished",
        }
    }
}

/// Most characters of a program's name that are noted.
const LONGEST: usize = 100;

/// Most characters of the word for how a job ended.
const LONGEST_KIND: usize = 40;

impl Record {
    pub(super) fn new(id: String, accepted_ms: u64, job: Accepted<'_>) -> Self {
        let Accepted { source, language, backend } = job;
        Self {
            id,
            program: program(source).chars().take(LONGEST).collect(),
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
        let End { ended_ms, kind, exit_code } = end;
        self.state = State::Finished;
        self.ended_ms = Some(ended_ms.clamp(self.accepted_ms, millis(SystemTime::now()).max(self.accepted_ms)));
        (self.kind, self.exit_code) = (Some(kind), Some(exit_code));
    }

    pub(super) fn interrupted(&mut self) {
        (self.state, self.ended_ms) = (State::Interrupted, Some(millis(SystemTime::now())));
    }

    /// One line, its end included.
    pub(super) fn line(&self) -> Vec<u8> {
        line(self)
    }
}

fn line(value: &impl Serialize) -> Vec<u8> {
    // A value of texts and numbers is always JSON.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

/// A text is its user's; a name tells enough.
fn program(source: &Source) -> &str {
    match source {
        Source::Inline(_) => "-c",
        Source::Stdin(_) => "-",
        Source::File { name, .. } => name.components().last().unwrap_or_default(),
        Source::Command(words) => words.first().map_or("", String::as_str),
        Source::Tool { name, .. } => name.as_str(),
    }
}

/// The time since 1970 in milliseconds; 0 before.
pub(super) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// One record of each job, the latest first. Of several the one that knows most stands: an end that was noted wins over one
/// that was only found.
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
