//! Rich results as text.

use codebox_core::{MimeBundle, ResultRole, RunReport};

/// Returns the text forms of what a cell has shown, as lines: what it displayed, and the value of its last expression.
pub(crate) fn shown(report: &RunReport) -> Vec<String> {
    let text = |result: &MimeBundle| {
        let text = result.data.get("text/plain").and_then(|text| text.as_str()).map(|text| format!("{text}\n"));
        match (&result.role, result.data.keys().find(|kind| kind.starts_with("image/"))) {
            (ResultRole::Display, Some(kind)) => Some(format!("<{kind}; see --json>\n")),
            _ => text,
        }
    };
    report.results.iter().filter_map(text).collect()
}
