//! The cells of a session, which an interpreter in the container runs one after the other.
//!
//! The interpreter sends queries: for the next cell, for the end of the current one, and for rich results. At the end of a cell it writes a mark to
//! both output streams, because output arrives over another channel than queries. Everything that it sends is a claim of the guest about
//! itself.

use std::time::Duration;

use codebox_agent::{Request, Run};
use codebox_core::Shown;
use codebox_streams::{RESULT_TAG, Recorded, RichResults};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

/// Time for the marks to arrive after the end of a cell.
const MARK_TIMEOUT: Duration = Duration::from_secs(1);

/// Answer to a query that needs none.
const RECEIVED: &[u8] = b"1";

/// An interpreter that runs cells, and its current cell.
#[derive(Default)]
pub(crate) struct Cell {
    /// Start of the interpreter, before the first cell.
    start: Option<Run>,
    /// The next cell, until the interpreter has it.
    text: Option<Vec<u8>>,
    /// Number of the query with which the interpreter waits for the next cell.
    waiting: Option<u32>,
    mark: Vec<u8>,
    streams: [Marked; 2],
    /// Exit status, and the time of the end.
    ended: Option<(i32, Instant)>,
    results: RichResults,
    /// Results that have not been shown.
    unshown: Vec<Shown>,
}

/// An output stream with marks.
#[derive(Default)]
struct Marked {
    /// Bytes that may be the beginning of the mark, or belong to the next cell.
    held: Vec<u8>,
    has_mark: bool,
}

/// Handling of a query.
pub(crate) enum CellQuery {
    Answer(Request),
    /// The query waits for the next cell.
    Waits,
    /// The query is not one about cells.
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Query {
    Cell,
    Ended { status: i64 },
}

impl Cell {
    /// Sets the next cell, and for the first one the start of the interpreter.
    pub(crate) fn set(&mut self, text: &str, number: Option<u32>, start: Option<Run>) {
        let mark = format!("\0cell {:032x}\n", rand::random::<u128>());
        let head = json!({ "kind": "inline", "file": "<cell>", "results": true, "mark": mark, "number": number });
        self.start = start;
        self.text = Some(format!("{head}\n{text}").into_bytes());
        (self.mark, self.ended, self.results) = (mark.into_bytes(), None, RichResults::default());
        self.streams.iter_mut().for_each(|stream| stream.has_mark = false);
    }

    /// Returns the request that starts the interpreter, or the answer that starts the cell if the interpreter waits for it.
    pub(crate) fn begin(&mut self) -> Option<Request> {
        if let Some(start) = self.start.take() {
            return Some(Request::Run(start));
        }
        let (number, text) = (self.waiting.take()?, self.text.take()?);
        Some(Request::Answer(number, text))
    }

    /// Handles a query.
    pub(crate) fn query(&mut self, number: u32, query: &[u8]) -> CellQuery {
        let received = || CellQuery::Answer(Request::Answer(number, RECEIVED.to_vec()));
        if query.first() == Some(&RESULT_TAG) {
            // A malformed result is left out.
            self.unshown.extend(self.results.record(query).and_then(Recorded::into_shown));
            return received();
        }
        match serde_json::from_slice(query) {
            Ok(Query::Cell) => match self.text.take() {
                Some(text) => CellQuery::Answer(Request::Answer(number, text)),
                None => {
                    self.waiting = Some(number);
                    CellQuery::Waits
                }
            },
            Ok(Query::Ended { status }) => {
                let status = i32::try_from(status & 0xFF).unwrap_or(1);
                self.ended.get_or_insert((status, Instant::now()));
                received()
            }
            Err(_) => CellQuery::Other,
        }
    }

    /// Returns the part of the output that belongs to the cell.
    pub(crate) fn output(&mut self, stream: usize, bytes: Vec<u8>) -> Vec<u8> {
        let Marked { held, has_mark } = &mut self.streams[stream];
        held.extend(bytes);
        if *has_mark {
            // Output of a process that a cell has left behind; the next cell shows it.
            held.truncate(MAX_HELD);
            return Vec::new();
        }
        let found = held.windows(self.mark.len()).position(|part| part == self.mark);
        if let Some(at) = found {
            *has_mark = true;
            let output = held.drain(..at).collect();
            held.drain(..self.mark.len());
            return output;
        }
        // The rest may be the beginning of the mark.
        let start = (1..self.mark.len()).rev().find(|count| held.ends_with(&self.mark[..*count])).unwrap_or(0);
        held.drain(..held.len() - start).collect()
    }

    /// Returns true if the cell has ended and all of its output has arrived.
    pub(crate) fn is_over(&self) -> bool {
        self.ended.is_some() && self.streams.iter().all(|stream| stream.has_mark)
    }

    /// Returns the time after which the rest of the output is not waited for.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.ended.map(|(_, at)| at + MARK_TIMEOUT)
    }

    /// Returns the exit status, if the cell has ended and the interpreter goes on.
    pub(crate) fn status(&self) -> Option<i32> {
        self.ended.map(|(status, _)| status)
    }

    /// Returns what the cell has shown since the last call.
    pub(crate) fn take_unshown(&mut self) -> Vec<Shown> {
        std::mem::take(&mut self.unshown)
    }

    /// Returns the rich results of the cell.
    pub(crate) fn take_results(&mut self) -> RichResults {
        std::mem::take(&mut self.results)
    }
}

/// Maximum number of bytes that are held for the next cell.
const MAX_HELD: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn started() -> Cell {
        let mut cell = Cell::default();
        cell.set("1", None, None);
        assert!(matches!(cell.query(1, br#"{"op": "cell"}"#), CellQuery::Answer(_)));
        cell
    }

    #[test]
    fn output_ends_at_the_mark_however_it_is_split() {
        for piece in [1, 2, 7, 100] {
            let mut cell = started();
            let sent = [b"a\0cell b\n".as_slice(), &cell.mark.clone(), b"next"].concat();
            let mut output = Vec::new();
            for part in sent.chunks(piece) {
                output.extend(cell.output(0, part.to_vec()));
            }
            assert_eq!(output, b"a\0cell b\n");
            assert!(!cell.is_over());
            let mark = cell.mark.clone();
            assert_eq!(cell.output(1, mark), b"");
            assert!(!cell.is_over());
            assert!(matches!(cell.query(2, br#"{"op": "ended", "status": 3}"#), CellQuery::Answer(_)));
            assert_eq!((cell.is_over(), cell.status()), (true, Some(3)));
            // The rest belongs to the next cell.
            cell.set("2", None, None);
            assert_eq!(cell.output(0, b"!".to_vec()), b"next!");
        }
    }

    #[test]
    fn the_interpreter_waits_for_the_next_cell() {
        let mut cell = started();
        assert!(matches!(cell.query(2, br#"{"op": "ended", "status": -1}"#), CellQuery::Answer(_)));
        assert!(matches!(cell.query(3, br#"{"op": "cell"}"#), CellQuery::Waits));
        cell.set("2", None, None);
        assert!(matches!(cell.begin(), Some(Request::Answer(3, text)) if text.ends_with(b"\n2")));
        assert!(cell.begin().is_none() && cell.status().is_none());
        for other in [&b"{"[..], b"", br#"{"op": "other"}"#, br#"{"op": "tools"}"#, b"\x04a\0{}"] {
            assert!(matches!(cell.query(4, other), CellQuery::Other));
        }
    }
}
