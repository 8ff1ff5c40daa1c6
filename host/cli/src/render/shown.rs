//! Rich results as text.

use codebox_core::{MimeBundle, ResultRole, RunReport};

/// Returns the text forms of what a cell has shown, as lines: what it displayed, and the value of its last expression.
pub(crate) fn shown(report: &RunReport) -> Vec<String> {
    report.results.iter().filter_map(shown_one).collect()
}

/// Returns the text form of one result, as lines.
pub(crate) fn shown_one(result: &MimeBundle) -> Option<String> {
    let text = result.data.get("text/plain").and_then(|text| text.as_str()).map(|text| format!("{text}\n"));
    match (&result.role, result.data.keys().find(|kind| kind.starts_with("image/"))) {
        (ResultRole::Display | ResultRole::Update, Some(kind)) => Some(format!("<{kind}; see --show>\n")),
        _ => text,
    }
}
