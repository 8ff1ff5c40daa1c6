//! The list of the calls of a run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use codebox_core::{ToolCall, ToolFailure, ToolResult};

/// Maximum number of calls that a report lists.
const MAX_LISTED: usize = 1000;

/// Maximum number of refused calls that a report lists: they do not take the place of calls that were made.
const MAX_REFUSED: usize = 100;

/// Maximum length of the name of a call in a report.
pub(crate) const MAX_NAME: usize = 128;

/// Calls of a run, of which a maximum number is kept.
#[derive(Debug, Default)]
pub(crate) struct CallList {
    ended: Vec<ToolCall>,
    dropped: u64,
    /// Number of refused calls that have ended.
    refused: usize,
    /// Calls in progress, with the time of their start.
    open: BTreeMap<u64, (ToolCall, Instant)>,
    next: u64,
}

impl CallList {
    /// Adds a call that starts, and returns its number.
    pub(crate) fn start(&mut self, name: &str, input: &[u8]) -> u64 {
        let (name, input_bytes) = (shown(name), input.len() as u64);
        let call = ToolCall { name, input_bytes, output_bytes: 0, wall: Duration::ZERO, failure: None };
        let number = self.next;
        self.next += 1;
        self.open.insert(number, (call, Instant::now()));
        number
    }

    /// Records the end of a call.
    pub(crate) fn end(&mut self, number: u64, result: &ToolResult) {
        let Some((call, began)) = self.open.remove(&number) else { return };
        self.add(ToolCall {
            output_bytes: result.as_ref().map_or(0, |output| output.len() as u64),
            wall: began.elapsed(),
            failure: result.as_ref().err().map(|failure| failure.kind.clone()),
            ..call
        });
    }

    /// Adds a call that has ended, if there is place for it.
    pub(crate) fn add(&mut self, call: ToolCall) {
        let is_refused = matches!(call.failure.as_deref(), Some(ToolFailure::DENIED | ToolFailure::BUDGET));
        if is_refused {
            self.refused += 1;
        }
        let has_place = if is_refused {
            self.refused <= MAX_REFUSED
        } else {
            self.ended.len() - self.refused.min(MAX_REFUSED) < MAX_LISTED
        };
        match has_place {
            true => self.ended.push(call),
            false => self.dropped += 1,
        }
    }

    /// Returns all calls, those in progress at the end as interrupted, and the number of those that are not listed.
    pub(crate) fn all(&self) -> (Vec<ToolCall>, u64) {
        let interrupted = |(call, began): &(ToolCall, Instant)| ToolCall {
            wall: began.elapsed(),
            failure: Some(ToolFailure::INTERRUPTED.to_owned()),
            ..call.clone()
        };
        (self.ended.iter().cloned().chain(self.open.values().map(interrupted)).collect(), self.dropped)
    }
}

/// Returns the name of a call for a report or a message.
pub(crate) fn shown(name: &str) -> String {
    name.chars().take(MAX_NAME).map(|c| if c.is_ascii_graphic() { c } else { '?' }).collect()
}
