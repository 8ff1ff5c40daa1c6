//! The job as the guest's prelude is told of it: one line of JSON, then the program's own bytes.

use codebox_core::{Job, Source};
use serde::Serialize;

#[derive(Serialize)]
struct Head<'a> {
    kind: &'static str,
    file: &'a str,
    argv: Vec<&'a str>,
    env: &'a std::collections::BTreeMap<String, String>,
    path0: &'a str,
    cwd: &'static str,
}

/// What `host.call` answers to the guest's question for its job; nothing when this tier cannot run such a source.
pub(crate) fn message(job: &Job) -> Option<Vec<u8>> {
    let (kind, path0) = match &job.source {
        Source::Inline(_) => ("inline", ""),
        Source::Stdin(_) => ("stdin", ""),
        Source::File { name, .. } => ("file", name.as_str().rsplit_once('/').map_or("", |(dir, _)| dir)),
        Source::Command(_) | Source::Tool { .. } => return None,
    };
    // A file at the root has "/" as its directory.
    let path0 = if kind == "file" && path0.is_empty() { "/" } else { path0 };
    let argv = std::iter::once(job.source.argv0()).chain(job.args.iter().map(String::as_str)).collect();
    let head = Head { kind, file: job.source.file_name(), argv, env: &job.env, path0, cwd: "/work" };
    let mut message = serde_json::to_vec(&head).ok()?;
    message.push(b'\n');
    message.extend_from_slice(job.source.text()?);
    Some(message)
}
