//! Journal of a cell that can be suspended: the cell, and its calls of tools with their results.
//!
//! The cell is run again from it, with the same random numbers and the recorded results, until it arrives at the call that it waited for.
//! A call is recorded before it is made, and its result before the cell receives it, so that no call is made twice.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use codebox_core::{SuspendedCall, ToolCall, ToolFailure, ToolResult};
use codebox_runner::{Cell, Course};
use serde::{Deserialize, Serialize};

/// File of the journal, in the directory of the session.
const JOURNAL: &str = "cell.journal";

/// Version of the form.
const VERSION: u32 = 2;

/// Line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The first line.
    Cell { version: u32, cell: Box<Cell>, course: Course, client: String },
    /// The client is about to decide a call.
    Call { name: String, input: String },
    /// The last call was approved, and is about to be made.
    Approved,
    /// The last call has ended.
    Ended(Result<String, ToolFailure>),
    /// The cell waits for the last call.
    Suspended,
    /// The suspended cell is run again.
    Running,
    /// It was stopped before it ended, and may have had effects outside of the session.
    Stopped { has_effects: bool },
    /// These numbers of bytes of the output of the suspended cell were delivered.
    Delivered([u64; 2]),
}

/// Call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    name: String,
    input: String,
    state: CallState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum CallState {
    /// It was passed to the client, which makes it or asks for an approval.
    Started,
    /// It waits for an approval.
    Waiting,
    Approved,
    Ended(Result<String, ToolFailure>),
}

/// Journal of one cell.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    pub cell: Cell,
    pub course: Course,
    /// Data of the client that ran the cell.
    pub client: String,
    calls: Vec<Call>,
    is_suspended: bool,
    /// True while the suspended cell is run again, also if the process was killed meanwhile.
    is_running: bool,
    /// True if the suspended cell has gone on, and was stopped after effects outside of the session.
    has_effects: bool,
    pub delivered: [u64; 2],
}

/// Treatment of a call of the cell.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    /// The call was made before, and has this result.
    Recorded(ToolResult),
    /// The call is made now, with this input.
    Make { input: String, is_approved: bool },
    /// The cell has not made this call before: it called this tool.
    Diverged(String),
}

impl Journal {
    fn new(path: PathBuf, cell: Cell, course: Course, client: String) -> Self {
        let (is_suspended, is_running, has_effects) = (false, false, false);
        Self { path, cell, course, client, calls: Vec::new(), is_suspended, is_running, has_effects, delivered: [0, 0] }
    }

    /// Creates the journal of a cell that is about to run.
    pub(crate) fn create(dir: &Path, cell: Cell, course: Course, client: String) -> io::Result<Self> {
        let path = dir.join(JOURNAL);
        remove(&path)?;
        let line = Line::Cell { version: VERSION, cell: Box::new(cell.clone()), course, client: client.clone() };
        let journal = Self::new(path, cell, course, client);
        journal.append(&line)?;
        Ok(journal)
    }

    /// Reads the journal of a session; `None` if no cell is suspended. The journal of a cell that was not suspended is removed.
    pub(crate) fn read(dir: &Path) -> io::Result<Option<Self>> {
        let path = dir.join(JOURNAL);
        let file = match File::options().read(true).write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut journal: Option<Self> = None;
        let mut complete = 0;
        let mut reader = BufReader::new(&file);
        loop {
            let mut text = Vec::new();
            reader.read_until(b'\n', &mut text)?;
            // The process may have been killed while it wrote a line.
            let Some(line) = text.strip_suffix(b"\n") else { break };
            let line: Line = serde_json::from_slice(line).map_err(io::Error::other)?;
            match (&mut journal, line) {
                (None, Line::Cell { version: VERSION, cell, course, client }) => {
                    journal = Some(Self::new(path.clone(), *cell, course, client));
                }
                (Some(journal), line) => journal.apply(line)?,
                (None, _) => return Err(io::Error::other("it has no cell, or is of another version")),
            }
            complete += text.len() as u64;
        }
        file.set_len(complete)?;
        match journal.filter(|journal| journal.is_suspended) {
            Some(journal) => Ok(Some(journal)),
            None => remove(&path).map(|()| None),
        }
    }

    fn apply(&mut self, line: Line) -> io::Result<()> {
        let malformed = || io::Error::other("its lines do not follow each other");
        let last = || self.calls.last().ok_or_else(malformed);
        match line {
            Line::Cell { .. } => return Err(malformed()),
            Line::Call { name, input } => self.calls.push(Call { name, input, state: CallState::Started }),
            Line::Approved if last()?.state == CallState::Waiting => self.set_last(CallState::Approved),
            Line::Suspended if last()?.state == CallState::Started => {
                self.set_last(CallState::Waiting);
                (self.is_suspended, self.is_running) = (true, false);
            }
            Line::Running => self.is_running = true,
            Line::Stopped { has_effects } => {
                self.is_running = false;
                self.has_effects |= has_effects;
            }
            Line::Delivered(delivered) => self.delivered = delivered,
            Line::Ended(result) => {
                last()?;
                self.set_last(CallState::Ended(result));
            }
            Line::Approved | Line::Suspended => return Err(malformed()),
        }
        Ok(())
    }

    fn set_last(&mut self, state: CallState) {
        if let Some(last) = self.calls.last_mut() {
            last.state = state;
        }
    }

    /// Appends a line. A suspended cell can be resumed on another day, after the machine was off.
    fn append(&self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line).map_err(io::Error::other)?;
        text.push(b'\n');
        let mut file = File::options().create(true).append(true).open(&self.path)?;
        let complete = file.metadata()?.len();
        // A part of a line would damage the next one.
        file.write_all(&text).inspect_err(|_| drop(file.set_len(complete)))?;
        if !self.is_suspended && !matches!(line, Line::Suspended) {
            return Ok(());
        }
        file.sync_data()?;
        match self.path.parent() {
            // The file was created a moment ago.
            Some(dir) if !self.is_suspended => File::open(dir)?.sync_all(),
            _ => Ok(()),
        }
    }

    fn record(&mut self, line: Line) -> io::Result<()> {
        self.append(&line)?;
        self.apply(line)
    }

    /// Returns true if the cell was suspended.
    pub(crate) fn is_suspended(&self) -> bool {
        self.is_suspended
    }

    /// Returns the call that waits for an approval.
    pub(crate) fn waiting(&self) -> Option<SuspendedCall> {
        let last = self.calls.last().filter(|_| self.is_suspended)?;
        matches!(last.state, CallState::Waiting).then(|| SuspendedCall {
            id: self.call_id(),
            name: last.name.clone(),
            input: last.input.clone(),
        })
    }

    /// Returns the id of the last call.
    fn call_id(&self) -> String {
        format!("{:x}", self.position())
    }

    /// Returns the calls so far as a report lists them.
    pub(crate) fn listed(&self) -> Vec<ToolCall> {
        let listed = |call: &Call| {
            let (output_bytes, failure) = match &call.state {
                CallState::Ended(Ok(output)) => (output.len() as u64, None),
                CallState::Ended(Err(failure)) => (0, Some(failure.kind.as_str())),
                CallState::Waiting => (0, Some(ToolFailure::SUSPENDED)),
                CallState::Started | CallState::Approved => (0, Some(ToolFailure::INTERRUPTED)),
            };
            let (input_bytes, failure) = (call.input.len() as u64, failure.map(str::to_owned));
            ToolCall { name: call.name.clone(), input_bytes, output_bytes, wall: Duration::ZERO, failure }
        };
        self.calls.iter().map(listed).collect()
    }

    /// Returns the name of the call with this position, if it is recorded.
    pub(crate) fn call_at(&self, position: usize) -> Option<&str> {
        self.calls.get(position).map(|call| call.name.as_str())
    }

    /// Returns the treatment of the call with this position, and records it if it is made.
    pub(crate) fn next(&mut self, position: usize, name: &str, input: &str) -> io::Result<Next> {
        let Some(call) = self.calls.get(position).cloned() else {
            self.record(Line::Call { name: name.to_owned(), input: input.to_owned() })?;
            return Ok(Next::Make { input: input.to_owned(), is_approved: false });
        };
        if call.name != name || !is_alike(&call.input, input) {
            return Ok(Next::Diverged(call.name));
        }
        match call.state {
            CallState::Ended(result) => Ok(Next::Recorded(result.map(String::into_bytes))),
            // The approval is for the recorded input.
            CallState::Waiting => {
                self.record(Line::Approved)?;
                Ok(Next::Make { input: call.input, is_approved: true })
            }
            // Decided before the cell was run again.
            CallState::Started | CallState::Approved => Err(io::Error::other("a call in progress is not decided")),
        }
    }

    /// Records the result of the last call.
    pub(crate) fn end(&mut self, result: &ToolResult) -> io::Result<()> {
        let text = |output: &Vec<u8>| String::from_utf8(output.clone()).map_err(io::Error::other);
        let result = match result {
            Ok(output) => Ok(text(output)?),
            Err(failure) => Err(failure.clone()),
        };
        self.record(Line::Ended(result))
    }

    /// Records that the cell waits for the last call.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        self.record(Line::Suspended)
    }

    /// Records the numbers of bytes of output that were delivered so far.
    pub(crate) fn deliver(&mut self, delivered: [u64; 2]) -> io::Result<()> {
        self.record(Line::Delivered(delivered))
    }

    /// Returns a number that identifies the last call of this cell, by which a decision refers to it.
    pub(crate) fn position(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.course.seed;
        u64::from_le_bytes([a, b, c, d, e, f, g, h]).wrapping_add(self.calls.len() as u64)
    }

    /// Returns true if the cell can be run again. `has_outside` is true if the session can have effects outside.
    pub(crate) fn is_repeatable(&self, has_outside: bool) -> bool {
        !(self.has_effects || self.is_running && has_outside)
    }

    /// Records that the suspended cell is run again, with a decision about the call that it waits for. A call that was in progress when it was
    /// stopped may have had an effect; it fails, and is not made again.
    pub(crate) fn start(&mut self, is_approved: bool) -> io::Result<()> {
        self.record(Line::Running)?;
        let Some(last) = self.calls.last() else { return Ok(()) };
        let failure = match last.state {
            CallState::Ended(_) => return Ok(()),
            CallState::Waiting if is_approved => return Ok(()),
            CallState::Waiting => {
                let line = format!("the call of the tool {} was not approved", last.name);
                ToolFailure::new(ToolFailure::DENIED, line)
            }
            CallState::Started | CallState::Approved => {
                let line = format!("the call of the tool {} was interrupted, and may have had an effect", last.name);
                ToolFailure::new(ToolFailure::INTERRUPTED, line)
            }
        };
        self.record(Line::Ended(Err(failure)))
    }

    /// Records that the cell was stopped before it ended.
    pub(crate) fn stop(&mut self, has_effects: bool) -> io::Result<()> {
        self.record(Line::Stopped { has_effects })
    }

    /// Removes the journal in the directory of a session.
    pub(crate) fn remove_from(dir: &Path) -> io::Result<()> {
        remove(&dir.join(JOURNAL))
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Returns true if two inputs differ at most in digits, such as those of a time.
fn is_alike(one: &str, other: &str) -> bool {
    one == other || without_digits(one) == without_digits(other)
}

/// Returns a text with one digit in place of each run of digits.
fn without_digits(text: &str) -> String {
    let mut short = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '0'..='9' if short.ends_with('0') => {}
            '0'..='9' => short.push('0'),
            c => short.push(c),
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(dir: &Path) -> Journal {
        Journal::create(dir, Cell::from("x"), Course { seed: [7; 32], continues: true }, "client".to_owned())
            .expect("a journal")
    }

    fn make(journal: &mut Journal, position: usize, name: &str) {
        let next = journal.next(position, name, "{}").expect("it is recorded");
        assert_eq!(next, Next::Make { input: "{}".to_owned(), is_approved: false });
    }

    #[test]
    fn a_cell_that_was_not_suspended_leaves_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        make(&mut journal(dir.path()), 0, "a");
        assert!(Journal::read(dir.path()).expect("it is read").is_none());
        assert!(fs::read_dir(dir.path()).expect("a directory").next().is_none());
    }

    #[test]
    fn an_approved_call_is_made_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut first = journal(dir.path());
        make(&mut first, 0, "a");
        first.end(&Ok(b"1".to_vec())).expect("it is recorded");
        make(&mut first, 1, "b");
        first.suspend().expect("it is recorded");
        first.deliver([3, 4]).expect("it is recorded");
        let waiting = |journal: &Journal| journal.waiting().map(|call| call.name);
        assert_eq!(waiting(&first).as_deref(), Some("b"));

        let read = || Journal::read(dir.path()).expect("it is read").expect("it is suspended");
        let mut second = read();
        assert_eq!((second.delivered, second.course, waiting(&second).as_deref()), ([3, 4], first.course, Some("b")));
        let failures: Vec<_> = second.listed().into_iter().map(|call| call.failure).collect();
        assert_eq!(failures, [None, Some(ToolFailure::SUSPENDED.to_owned())]);
        second.start(true).expect("it is recorded");
        assert_eq!(second.next(0, "a", "{}").expect("a result"), Next::Recorded(Ok(b"1".to_vec())));
        assert_eq!(second.next(1, "c", "{}").expect("an answer"), Next::Diverged("b".to_owned()));
        let made = Next::Make { input: "{}".to_owned(), is_approved: true };
        assert_eq!(second.next(1, "b", "{}").expect("it is recorded"), made);

        // The process ends while the call is in progress.
        let mut third = read();
        assert_eq!(third.waiting(), None);
        third.start(true).expect("it is recorded");
        let Next::Recorded(Err(failure)) = third.next(1, "b", "{}").expect("a result") else {
            panic!("it is made twice")
        };
        assert_eq!(failure.kind, ToolFailure::INTERRUPTED);
        assert_eq!(read().next(1, "b", "{}").expect("a result"), Next::Recorded(Err(failure)));
    }

    #[test]
    fn a_denied_call_is_not_made() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut journal = journal(dir.path());
        make(&mut journal, 0, "a");
        journal.suspend().expect("it is recorded");
        journal.start(false).expect("it is recorded");
        let next = journal.next(0, "a", "{}").expect("a result");
        assert!(matches!(next, Next::Recorded(Err(failure)) if failure.kind == ToolFailure::DENIED));
    }

    #[test]
    fn effects_are_not_repeated() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut journal = journal(dir.path());
        make(&mut journal, 0, "a");
        journal.suspend().expect("it is recorded");
        assert!(journal.is_repeatable(true));
        journal.start(true).expect("it is recorded");
        let read = || Journal::read(dir.path()).expect("it is read").expect("it is suspended");
        // The process was killed, and the effects of the cell are not known.
        assert!(read().is_repeatable(false) && !read().is_repeatable(true));
        journal.stop(false).expect("it is recorded");
        assert!(read().is_repeatable(true));
        journal.stop(true).expect("it is recorded");
        assert!(!read().is_repeatable(false));
    }

    #[test]
    fn an_incomplete_line_is_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut first = journal(dir.path());
        make(&mut first, 0, "a");
        first.suspend().expect("it is recorded");
        let path = dir.path().join(JOURNAL);
        let complete = fs::read(&path).expect("it is read");
        for end in 1..20 {
            fs::write(&path, [complete.as_slice(), &b"{\"ended\":{\"Ok\":\"1\"}}\n"[..end]].concat())
                .expect("it is written");
            let read = Journal::read(dir.path()).expect("it is read").expect("it is suspended");
            assert_eq!(read.waiting().map(|call| call.name).as_deref(), Some("a"));
            assert_eq!(fs::read(&path).expect("it is read"), complete);
        }
    }

    #[test]
    fn inputs_may_differ_in_digits() {
        assert!(is_alike(r#"{"at":12.5}"#, r#"{"at":1234.56}"#));
        assert!(is_alike("2026-11-27T09:00", "2026-12-01T23:59"));
        assert!(!is_alike(r#"{"to":"a"}"#, r#"{"to":"b"}"#));
        assert!(!is_alike("1", ""));
    }
}
