use serde::{Deserialize, Serialize};

use crate::backend::PartialOutput;
use crate::report::{CapturedOutput, JsonBytes};

/// Gap in the middle of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Truncation {
    /// Number of missing bytes.
    pub dropped_bytes: u64,
    /// Number of kept bytes before the gap.
    pub head_bytes: u64,
}

/// One stream as fields of a report.
pub(super) struct Stream {
    pub text: String,
    pub base64: Option<String>,
    pub truncated: Option<Truncation>,
}

impl Stream {
    pub(super) fn of(captured: &CapturedOutput) -> Self {
        let captured = captured.clone().trim_to_char_boundaries();
        let truncated = captured
            .is_truncated()
            .then_some(Truncation { dropped_bytes: captured.dropped, head_bytes: captured.head.len() as u64 });
        match captured.to_json_bytes() {
            JsonBytes::Text(text) => Self { text, base64: None, truncated },
            JsonBytes::Base64(base64) => Self { text: captured.to_text_lossy(), base64: Some(base64), truncated },
        }
    }
}

/// Output of a guest up to the point where contact with it was lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Partial {
    /// Standard output; lossy if `stdout_base64` is present.
    pub stdout: String,
    /// Bytes of the standard output, if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_base64: Option<String>,
    /// Gap in the middle of the standard output, if bytes are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_truncated: Option<Truncation>,
    /// Standard error; lossy if `stderr_base64` is present.
    pub stderr: String,
    /// Bytes of the standard error, if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<String>,
    /// Gap in the middle of the standard error, if bytes are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_truncated: Option<Truncation>,
}

impl From<&PartialOutput> for Partial {
    fn from(written: &PartialOutput) -> Self {
        let PartialOutput { stdout, stderr } = written;
        let (stdout, stderr) = (Stream::of(stdout), Stream::of(stderr));
        Self {
            stdout: stdout.text,
            stdout_base64: stdout.base64,
            stdout_truncated: stdout.truncated,
            stderr: stderr.text,
            stderr_base64: stderr.base64,
            stderr_truncated: stderr.truncated,
        }
    }
}
