use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
