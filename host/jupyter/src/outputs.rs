//! Outputs of a cell on their way to the clients.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codebox_core::{MimeBundle, OutputSink, ResultRole, ResultSink, Shown};
use jupyter_protocol::{ExecuteRequest, JupyterMessage, JupyterMessageContent, Stdio, StreamContent, UnknownMessage};
use serde_json::json;

use crate::publication::{Publication, Publisher};

/// Starts of lines with which the report of an uncaught error can begin.
const ERROR_STARTS: [&str; 4] =
    [TRACEBACK, "  + Exception Group Traceback (most recent call last):", "  File \"<cell ", "Uncaught "];

/// Line with which most reports of Python begin, also after a text without a line feed.
const TRACEBACK: &str = "Traceback (most recent call last):";

/// Start of the first line of a report of JavaScript, which goes on with numbers: those of the cell and of the line.
const SCRIPT_START: &str = "<cell ";

/// Outputs of one cell, published in the order in which they are written.
///
/// An uncaught error is an output of its own, and is also the end of standard error. A text that may be its report is held until
/// other output follows or the cell ends.
pub(crate) struct Outputs {
    publisher: Publisher,
    /// Request of the cell, without its text.
    request: Arc<JupyterMessage>,
    count: usize,
    /// Bytes of standard output and standard error that are not a whole character.
    partial: [Vec<u8>; 2],
    /// Text of standard error that may be the report of an error.
    held: String,
    /// True if nothing is published.
    is_silent: bool,
}

/// Outputs that the sinks of a run share.
pub(crate) type Shared = Arc<Mutex<Outputs>>;

impl Outputs {
    pub(crate) fn shared(publisher: Publisher, request: JupyterMessage, count: usize, is_silent: bool) -> Shared {
        let (partial, held) = (<[Vec<u8>; 2]>::default(), String::new());
        let request = Arc::new(JupyterMessage { content: ExecuteRequest::default().into(), ..request });
        Arc::new(Mutex::new(Self { publisher, request, count, partial, held, is_silent }))
    }

    /// Publishes bytes of stream 0 or 1. Blocks the calling thread while many messages wait to be published.
    fn write(&mut self, stream: usize, bytes: &[u8]) {
        let text = whole_text(&mut self.partial[stream], bytes);
        if stream == 0 {
            self.release();
            return self.send(Stdio::Stdout, text);
        }
        self.held.push_str(&text);
        let start = possible_error(&self.held);
        let rest = self.held.split_off(start);
        let text = std::mem::replace(&mut self.held, rest);
        self.send(Stdio::Stderr, text);
    }

    fn show(&mut self, shown: Shown) {
        self.release();
        let (kind, content) = match shown {
            Shown::Clear { waits } => ("clear_output", json!({"wait": waits})),
            Shown::Result(MimeBundle { data, metadata, role, display_id }) => {
                let transient = display_id.map_or_else(|| json!({}), |id| json!({"display_id": id}));
                match role {
                    ResultRole::Display => {
                        ("display_data", json!({"data": data, "metadata": metadata, "transient": transient}))
                    }
                    ResultRole::Update => {
                        ("update_display_data", json!({"data": data, "metadata": metadata, "transient": transient}))
                    }
                    ResultRole::Value => {
                        let count = self.count;
                        ("execute_result", json!({"data": data, "metadata": metadata, "execution_count": count}))
                    }
                }
            }
        };
        self.publish(UnknownMessage { msg_type: kind.to_owned(), content });
    }

    /// Publishes the text that is held, which is not the report of the error: other output follows.
    fn release(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.send(Stdio::Stderr, held);
    }

    /// Ends the streams. The report of the error that ended the cell is left out.
    pub(crate) fn end(&mut self, traceback: Option<&str>) {
        for stream in [0, 1] {
            let rest = std::mem::take(&mut self.partial[stream]);
            let text = String::from_utf8_lossy(&rest).into_owned();
            match stream {
                0 => self.send(Stdio::Stdout, text),
                _ => self.held.push_str(&text),
            }
        }
        if let Some(traceback) = traceback.map(|text| text.trim_end_matches('\n')).filter(|text| !text.is_empty()) {
            let held = self.held.trim_end_matches('\n');
            // The report has a long traceback in a shorter form.
            let start = match held.strip_suffix(traceback) {
                Some(before) => Some(before.len()),
                None => held.rfind(TRACEBACK).map(|at| held[..at].rfind('\n').map_or(0, |line| line + 1)),
            };
            self.held.truncate(start.unwrap_or(self.held.len()));
        }
        self.release();
    }

    /// Publishes a line of codebox about the cell.
    pub(crate) fn note(&self, line: &str) {
        self.send(Stdio::Stderr, format!("codebox: {line}\n"));
    }

    pub(crate) fn publish(&self, content: impl Into<JupyterMessageContent>) {
        if !self.is_silent {
            let message = JupyterMessage::new(content, Some(&self.request));
            self.queue(Publication::Message(Box::new(message)));
        }
    }

    fn send(&self, name: Stdio, text: String) {
        if !self.is_silent && !text.is_empty() {
            self.queue(Publication::Stream(StreamContent { name, text }, Arc::clone(&self.request)));
        }
    }

    fn queue(&self, publication: Publication) {
        // The kernel ends if there is no receiver.
        let _ = self.publisher.blocking_send(publication);
    }
}

pub(crate) fn lock(outputs: &Shared) -> MutexGuard<'_, Outputs> {
    outputs.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the whole characters of `partial` and `bytes`, and keeps the start of one that is not complete.
fn whole_text(partial: &mut Vec<u8>, bytes: &[u8]) -> String {
    partial.extend(bytes);
    let mut end = partial.len();
    for back in 1..=3.min(partial.len()) {
        let at = partial.len() - back;
        let length = match partial[at] {
            0x80..=0xBF => continue,
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => 1,
        };
        if length > back {
            end = at;
        }
        break;
    }
    let rest = partial.split_off(end);
    let whole = std::mem::replace(partial, rest);
    String::from_utf8_lossy(&whole).into_owned()
}

/// Returns the place in a text from which it may be the report of an error: the first line that begins as one, or the last line
/// if it is the beginning of such a line.
fn possible_error(text: &str) -> usize {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if begins_error(line) {
            return at;
        }
        if let Some(inner) = line.find(TRACEBACK) {
            return at + inner;
        }
        at += line.len();
    }
    at
}

/// Returns true for the first line of a report, and for a part of a line that can become one.
fn begins_error(line: &str) -> bool {
    let is_open = !line.ends_with('\n');
    let begins = |start: &str| line.starts_with(start) || (is_open && start.starts_with(line));
    if ERROR_STARTS.iter().any(|start| begins(start)) {
        return true;
    }
    match line.strip_prefix(SCRIPT_START) {
        // A warning of Python goes on after the numbers.
        Some(rest) => rest.trim_end().chars().all(|c| c.is_ascii_digit() || matches!(c, '>' | ':')),
        None => is_open && SCRIPT_START.starts_with(line),
    }
}

/// Sink for one of the streams.
pub(crate) struct StreamSink(pub Shared, pub usize);

impl OutputSink for StreamSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        lock(&self.0).write(self.1, bytes);
        Ok(())
    }
}

/// Receiver of rich results.
pub(crate) struct RichSink(pub Shared);

impl ResultSink for RichSink {
    fn show(&mut self, shown: Shown) {
        lock(&self.0).show(shown);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::Receiver;

    use super::*;
    use crate::publication::publications;

    fn published(write: impl FnOnce(&mut Outputs)) -> Vec<String> {
        let (publisher, mut from): (_, Receiver<Publication>) = publications();
        let request = jupyter_protocol::ExecuteRequest::new(String::new()).into();
        let outputs = Outputs::shared(publisher, request, 3, false);
        write(&mut lock(&outputs));
        let mut texts = Vec::new();
        while let Ok(publication) = from.try_recv() {
            texts.push(match publication {
                Publication::Stream(StreamContent { name: Stdio::Stdout, text }, _) => format!("out {text}"),
                Publication::Stream(StreamContent { name: Stdio::Stderr, text }, _) => format!("err {text}"),
                Publication::Message(message) => message.message_type().to_owned(),
            });
        }
        texts
    }

    #[test]
    fn texts_have_whole_characters() {
        let text = "a\u{e9}\u{20ac}\u{1f600}b";
        for size in 1..=text.len() {
            let (mut partial, mut whole) = (Vec::new(), String::new());
            for piece in text.as_bytes().chunks(size) {
                whole.push_str(&whole_text(&mut partial, piece));
            }
            assert_eq!((whole.as_str(), partial.len()), (text, 0), "{size}");
        }
        let mut partial = Vec::new();
        assert_eq!(whole_text(&mut partial, b"a\xffb\x80"), "a\u{fffd}b\u{fffd}");
        assert_eq!(whole_text(&mut partial, b"\xf0\x9f"), "");
        assert_eq!(whole_text(&mut partial, b"x"), "\u{fffd}x");
    }

    #[test]
    fn report_of_an_error_is_left_out() {
        let report = "Traceback (most recent call last):\n  File \"<cell 1>\", line 1\nE: x";
        let texts = published(|outputs| {
            outputs.write(1, b"warned\nTrace");
            outputs.write(1, format!("{}\n", &report["Trace".len()..]).as_bytes());
            outputs.end(Some(report));
        });
        assert_eq!(texts, ["err warned\n"]);
        // A report that the program has printed itself stays, in its place.
        let texts = published(|outputs| {
            outputs.write(1, format!("{report}\n").as_bytes());
            outputs.write(0, b"then\n");
            outputs.write(1, b"Tracing\n");
            outputs.end(None);
        });
        assert_eq!(texts, [format!("err {report}\n"), "out then\n".to_owned(), "err Tracing\n".to_owned()]);
    }

    fn of_role(role: ResultRole) -> Shown {
        Shown::Result(MimeBundle { role, ..MimeBundle::default() })
    }

    #[test]
    fn results_keep_their_place() {
        let texts = published(|outputs| {
            outputs.write(0, b"1");
            outputs.show(of_role(ResultRole::Display));
            outputs.write(0, b"2");
            outputs.show(of_role(ResultRole::Value));
            outputs.show(of_role(ResultRole::Update));
            outputs.show(Shown::Clear { waits: true });
        });
        let kinds = ["out 1", "display_data", "out 2", "execute_result", "update_display_data", "clear_output"];
        assert_eq!(texts, kinds);
    }
}
