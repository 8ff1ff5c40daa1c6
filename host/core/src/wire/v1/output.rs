use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backend::Written;
use crate::report::{Captured, Rendered};

/// What was dropped from the middle of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Truncation {
    /// How many bytes are missing.
    pub dropped_bytes: u64,
    /// How many bytes of what was kept stand before the gap.
    pub head_bytes: u64,
}

/// One stream as fields of a report.
pub(super) struct Stream {
    pub text: String,
    pub base64: Option<String>,
    pub truncated: Option<Truncation>,
}

impl Stream {
    pub(super) fn of(captured: &Captured) -> Self {
        let captured = captured.clone().cut_between_characters();
        let truncated = captured
            .is_truncated()
            .then_some(Truncation { dropped_bytes: captured.dropped, head_bytes: captured.head.len() as u64 });
        match captured.rendered() {
            Rendered::Text(text) => Self { text, base64: None, truncated },
            Rendered::Base64(base64) => Self { text: captured.to_text_lossy(), base64: Some(base64), truncated },
        }
    }
}

/// What a guest had written when it was lost sight of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Partial {
    /// Its standard output; lossy if `stdout_base64` is there.
    pub stdout: String,
    /// The bytes of its standard output, if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_base64: Option<String>,
    /// What is missing from the middle of its standard output, if anything is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_truncated: Option<Truncation>,
    /// Its standard error; lossy if `stderr_base64` is there.
    pub stderr: String,
    /// The bytes of its standard error, if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<String>,
    /// What is missing from the middle of its standard error, if anything is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_truncated: Option<Truncation>,
}

impl From<&Written> for Partial {
    fn from(written: &Written) -> Self {
        let Written { stdout, stderr } = written;
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
