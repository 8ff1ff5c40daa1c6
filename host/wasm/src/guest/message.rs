//! The job's description for the guest's prelude: one line of JSON, then the program's own bytes.

use codebox_core::path::MappedPath;
use codebox_core::{GuestPath, Job, Source, Stdin};
use serde::Serialize;

#[derive(Serialize)]
struct JobHeader<'a> {
    kind: &'static str,
    file: &'a str,
    argv: Vec<&'a str>,
    env: &'a std::collections::BTreeMap<String, String>,
    path0: &'a str,
    cwd: &'a str,
    /// True if the user granted the program's directory.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    local: bool,
    /// True if the program's types have to be stripped before it runs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    typescript: bool,
    /// Guest directories of the packages that the host provides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    packages: Vec<&'a str>,
    /// True if any of the network is granted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    net: bool,
    /// True for a cell whose guest was just restored, so that its random numbers and names have to be new.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    restored: bool,
    /// True if rich results are collected.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    results: bool,
    /// Columns and rows of the terminal that the streams are.
    #[serde(skip_serializing_if = "Option::is_none")]
    terminal: Option<(u16, u16)>,
    /// True for a cell that has standard input.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    input: bool,
    /// Number of a cell in error reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u32>,
}

/// The kind of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobKind {
    /// A program in an interpreter of its own.
    Program,
    /// A cell of a session, in an interpreter that is new for the host.
    FirstCell,
    /// A cell of a session, in the interpreter of the cell before.
    Cell,
}

/// Returns the name of the program: the user's spelling if it leads to the program in the guest, otherwise the guest
/// path.
pub(crate) fn argv0(job: &Job) -> &str {
    let (typed, file) = (job.source.argv0(), job.source.file_name());
    let names_program = match &job.source {
        Source::File { .. } => typed == file || job.work_dir.join(typed).is_ok_and(|path| path.as_str() == file),
        _ => true,
    };
    if names_program { typed } else { file }
}

/// Returns the answer to the guest's job request in `host.call`. `None` for a source that this tier cannot run.
pub(crate) fn message(job: &Job, kind: JobKind, packages: &[GuestPath]) -> Option<Vec<u8>> {
    let (restored, is_cell) = (kind == JobKind::FirstCell, kind != JobKind::Program);
    let (kind, path0) = match &job.source {
        Source::Inline(_) | Source::Stdin(_) | Source::File { .. } if is_cell => ("cell", ""),
        Source::Inline(_) => ("inline", ""),
        Source::Stdin(_) => ("stdin", ""),
        Source::File { name, .. } => ("file", name.as_str().rsplit_once('/').map_or("", |(dir, _)| dir)),
        Source::Command(_) | Source::Tool { .. } => return None,
    };
    // A file at the root has "/" as its directory.
    let path0 = if kind == "file" && path0.is_empty() { "/" } else { path0 };
    let local = kind == "file"
        && GuestPath::new(path0).is_ok_and(|path0| job.grants.dirs.iter().any(|grant| path0.is_within(&grant.guest)));
    let typescript = job.language.is_typed();
    let net = !job.grants.net.is_empty();
    let argv = std::iter::once(argv0(job)).chain(job.args.iter().map(String::as_str)).collect();
    let packages = packages.iter().map(MappedPath::as_str).collect();
    let (file, env) = (job.source.file_name(), &job.env);
    let head = JobHeader {
        kind,
        file,
        argv,
        env,
        path0,
        cwd: job.work_dir.as_str(),
        local,
        typescript,
        packages,
        net,
        restored,
        results: job.results,
        terminal: job.terminal.map(|size| (size.columns, size.rows)),
        input: is_cell && job.stdin != Stdin::Empty,
        number: job.cell_number.filter(|_| is_cell),
    };
    let mut message = serde_json::to_vec(&head).ok()?;
    message.push(b'\n');
    message.extend_from_slice(job.source.text()?);
    Some(message)
}
