//! The frames between the host and the analyzer.
//!
//! The host writes requests to the analyzer's standard input and reads reports from its standard output, one at a time.
//! Every length is bounded, and both sides reject larger ones.
//!
//! ```text
//! request: header length (u32) · text length (u32) · header (JSON) · text
//! report:  end (u8) · processor time in µs (u64) · peak memory in KiB (u64) · answer length (u32) · answer
//! ```

use serde::{Deserialize, Serialize};

/// The longest text of a request, in bytes.
pub const MAX_TEXT: usize = 1 << 20;

/// The longest header of a request, in bytes.
pub const MAX_HEADER: usize = 4 << 10;

/// The longest answer in a report, in bytes.
pub const MAX_ANSWER: usize = 16 << 20;

/// The size of the lengths before a request's header, in bytes.
pub const REQUEST_LENGTHS_SIZE: usize = 8;

/// The size of a report before its answer, in bytes.
pub const REPORT_HEADER_SIZE: usize = 21;

/// A request without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The task.
    pub task: Task,
    /// The memory limit in bytes.
    pub memory: u64,
    /// The limit on processor time in milliseconds.
    pub cpu_ms: u64,
}

/// A task with one text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Task {
    /// Removal of the types from TypeScript. The answer is a program or an error, in the form that
    /// [`split_answer`](crate::split_answer) parses.
    Strip {
        /// The file's name, whose extension selects the kind of TypeScript.
        file: String,
    },
    /// Analysis of the needs of a Python program. The answer is [`Needs`](crate::Needs) in JSON.
    PythonNeeds,
    /// Analysis of the needs of a JavaScript or TypeScript program. The answer is [`Needs`](crate::Needs) in JSON.
    ScriptNeeds {
        /// The file's name.
        file: String,
    },
    /// Test whether a text may be Python. The answer is a boolean in JSON.
    IsPython,
}

/// Error of an invalid frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A length exceeds its bound.
    #[error("length of {0} bytes exceeds the maximum")]
    Length(u64),
    /// The result of the analysis is an unknown value.
    #[error("unknown outcome {0}")]
    ReportStatus(u8),
}

impl Header {
    /// Encodes the whole request for a text. Returns `None` if the text or the header is too long.
    #[must_use]
    pub fn request(&self, text: &str) -> Option<Vec<u8>> {
        let header = serde_json::to_vec(self).ok()?;
        if header.len() > MAX_HEADER || text.len() > MAX_TEXT {
            return None;
        }
        let mut request = Vec::with_capacity(REQUEST_LENGTHS_SIZE + header.len() + text.len());
        for length in [header.len(), text.len()] {
            request.extend_from_slice(&u32::try_from(length).ok()?.to_le_bytes());
        }
        request.extend_from_slice(&header);
        request.extend_from_slice(text.as_bytes());
        Some(request)
    }
}

/// Decodes the lengths of a request's header and text.
///
/// # Errors
/// [`FrameError::Length`] if a length exceeds its bound.
pub fn request_lengths(bytes: [u8; REQUEST_LENGTHS_SIZE]) -> Result<(usize, usize), FrameError> {
    let [a, b, c, d, e, f, g, h] = bytes;
    let bounded = |length: u32, max_len: usize| match usize::try_from(length) {
        Ok(length) if length <= max_len => Ok(length),
        _ => Err(FrameError::Length(length.into())),
    };
    let header = bounded(u32::from_le_bytes([a, b, c, d]), MAX_HEADER)?;
    Ok((header, bounded(u32::from_le_bytes([e, f, g, h]), MAX_TEXT)?))
}

/// The result of an analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportStatus {
    /// The analysis has an answer.
    Done,
    /// The analysis exceeded the memory limit.
    Memory,
    /// The analysis exceeded the limit on processor time.
    Cpu,
    /// The text is nested too deeply for the stack.
    Stack,
    /// The parser failed for another reason.
    Crashed,
}

/// A report without its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// The result of the analysis.
    pub end: ReportStatus,
    /// The processor time in microseconds.
    pub cpu_us: u64,
    /// The peak resident memory in KiB.
    pub peak_kib: u64,
    /// The length of the answer in bytes.
    pub answer: usize,
}

impl Report {
    /// Encodes the report.
    #[must_use]
    pub fn encode(&self) -> [u8; REPORT_HEADER_SIZE] {
        let end = match self.end {
            ReportStatus::Done => 0,
            ReportStatus::Memory => 1,
            ReportStatus::Cpu => 2,
            ReportStatus::Stack => 3,
            ReportStatus::Crashed => 4,
        };
        let answer = u32::try_from(self.answer).unwrap_or(u32::MAX);
        let mut bytes = [0; REPORT_HEADER_SIZE];
        bytes[0] = end;
        bytes[1..9].copy_from_slice(&self.cpu_us.to_le_bytes());
        bytes[9..17].copy_from_slice(&self.peak_kib.to_le_bytes());
        bytes[17..].copy_from_slice(&answer.to_le_bytes());
        bytes
    }

    /// Decodes a report whose answer may have up to `max_len` bytes.
    ///
    /// # Errors
    /// [`FrameError`] if the result is unknown or the answer is longer.
    pub fn decode(bytes: &[u8; REPORT_HEADER_SIZE], max_len: usize) -> Result<Self, FrameError> {
        let end = match bytes[0] {
            0 => ReportStatus::Done,
            1 => ReportStatus::Memory,
            2 => ReportStatus::Cpu,
            3 => ReportStatus::Stack,
            4 => ReportStatus::Crashed,
            other => return Err(FrameError::ReportStatus(other)),
        };
        let number = |from: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[from..from + 8]);
            u64::from_le_bytes(eight)
        };
        let [.., a, b, c, d] = *bytes;
        let answer = u32::from_le_bytes([a, b, c, d]);
        match usize::try_from(answer) {
            Ok(length) if length <= max_len => Ok(Self { end, cpu_us: number(1), peak_kib: number(9), answer: length }),
            _ => Err(FrameError::Length(answer.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_round_trip() {
        for end in
            [ReportStatus::Done, ReportStatus::Memory, ReportStatus::Cpu, ReportStatus::Stack, ReportStatus::Crashed]
        {
            let report = Report { end, cpu_us: 1 << 40, peak_kib: 77, answer: 1000 };
            assert_eq!(Report::decode(&report.encode(), 1000), Ok(report));
            assert_eq!(Report::decode(&report.encode(), 999), Err(FrameError::Length(1000)));
        }
        assert_eq!(Report::decode(&[9; REPORT_HEADER_SIZE], usize::MAX), Err(FrameError::ReportStatus(9)));
    }

    #[test]
    fn rejects_oversized_requests() {
        let header = Header { task: Task::IsPython, memory: 1, cpu_ms: 2 };
        let request = header.request("print(1)").expect("the text is within the limit");
        let lengths = request[..REQUEST_LENGTHS_SIZE].try_into().expect("the lengths");
        let (head, text) = request_lengths(lengths).expect("they are in bounds");
        assert_eq!(request.len(), REQUEST_LENGTHS_SIZE + head + text);
        assert_eq!(serde_json::from_slice::<Header>(&request[REQUEST_LENGTHS_SIZE..][..head]).expect("JSON"), header);
        assert_eq!(header.request(&" ".repeat(MAX_TEXT + 1)), None);
        let file = "x".repeat(MAX_HEADER);
        assert_eq!(Header { task: Task::Strip { file }, memory: 1, cpu_ms: 2 }.request(""), None);
        assert!(request_lengths([0xff; REQUEST_LENGTHS_SIZE]).is_err());
        assert!(request_lengths([1, 0, 0, 0, 0, 0, 0, 0x80]).is_err());
    }
}
