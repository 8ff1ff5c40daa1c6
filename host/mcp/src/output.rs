//! Results of the tools, in a form for programs and in one for models.

use codebox_blocks::{BlockStatus, BlocksReport, feedback};
use codebox_core::{Outcome, OutputShape, ResultRole, RunReport, RunnerError};
use rmcp::model::{CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;

use crate::server::CallError;

/// Maximum number of images of a result.
const MAX_IMAGES: usize = 16;

/// Kinds of images that clients show.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Maximum number of changed files that are listed.
const MAX_FILES: usize = 100;

/// Result of a program or a cell.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunOutput {
    /// True if the program ended with exit status 0
    pub success: bool,
    /// End of the program: exited, signalled, trapped, limit_hit or cancelled
    pub outcome: &'static str,
    /// Exit status, if the program exited
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<i32>,
    /// Limit that ended the program
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Standard output, shortened
    pub stdout: String,
    /// Standard error, shortened
    pub stderr: String,
    /// Text form of the value of the last expression, shortened
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Error that ended the program
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorOutput>,
    /// Files that the program created or changed
    pub files: Vec<String>,
    /// Missing features and denied requests, with hints
    pub notes: Vec<String>,
    /// Isolation of the program: wasm, container or vm
    pub isolation: &'static str,
    /// Run time in milliseconds
    pub wall_ms: f64,
    /// For a cell: true if the session keeps its state
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_kept: Option<bool>,
    /// For a cell: true if the state of earlier cells was lost before it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_lost: Option<bool>,
    /// For a cell: the checkpoint with whose state it started, if the session was restored for it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored_from: Option<String>,
}

/// Error of a program.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ErrorOutput {
    /// Type, such as ZeroDivisionError
    pub name: String,
    /// Message
    pub message: String,
    /// Line of the program
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// Results of the blocks of a text.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BlocksOutput {
    /// True if all blocks passed or were skipped
    pub success: bool,
    pub blocks: Vec<BlockOutput>,
}

/// Result of a block.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BlockOutput {
    /// Number of the block, from 1
    pub number: usize,
    pub language: &'static str,
    /// Line of the text with the first line of the code
    pub line: usize,
    /// passed, failed, skipped or not_run
    pub status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunOutput>,
    /// Reason that the block was refused
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Ids of new sessions.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct IdsOutput {
    pub sessions: Vec<String>,
}

/// All sessions.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListOutput {
    pub sessions: Vec<SessionOutput>,
}

/// A session.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionOutput {
    pub id: String,
    pub language: String,
    /// new, live, busy, parked or lost
    pub state: String,
    pub checkpoints: Vec<String>,
}

/// Place in which a program would run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExplainOutput {
    /// wasm, container or vm
    pub isolation: &'static str,
    pub backend: String,
    pub reason: String,
    /// Needs that the program shows
    pub needs: Vec<String>,
    /// Notes about packages
    pub notes: Vec<String>,
}

/// Packages that programs can import.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PackagesOutput {
    /// Packages of the runtime, which every program can import
    pub built_in: Vec<PackageOutput>,
    /// Packages that earlier programs requested; they need no download. Programs have to request them.
    pub stored: Vec<StoredPackageOutput>,
}

/// A stored package.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StoredPackageOutput {
    pub name: String,
    /// File name of a wheel, or name and version in the npm registry
    pub artifact: String,
}

/// A package.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PackageOutput {
    pub name: String,
    pub version: String,
}

/// Acknowledgement of a request without a result.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DoneOutput {
    pub done: bool,
}

impl RunOutput {
    fn of(report: &RunReport) -> Self {
        let shortened = |text: &str| OutputShape::default().apply_to_text(&feedback::plain(text)).into_owned();
        let (outcome, exit_status, limit) = match &report.outcome {
            Outcome::Exited(status) => ("exited", Some(*status), None),
            Outcome::Signalled(_) => ("signalled", None, None),
            Outcome::Trapped(_) => ("trapped", None, None),
            Outcome::LimitHit(kind) => ("limit_hit", None, Some(kind.to_string())),
            Outcome::Cancelled => ("cancelled", None, None),
            Outcome::Suspended => ("suspended", None, None),
        };
        let value = report.results.iter().find(|result| result.role == ResultRole::Value);
        let value = value.and_then(|value| value.data.get("text/plain")).and_then(|text| text.as_str());
        let changed = report.files.created.iter().chain(&report.files.modified);
        let hinted = |what: &str, hint: &str| {
            shortened(&if hint.is_empty() { what.to_owned() } else { format!("{what}: {hint}") })
        };
        let missing = report.missing.iter().map(|missing| hinted(&missing.what, &missing.hint));
        let denials = report.denials.iter().map(|denial| hinted(&format!("denied: {}", denial.detail), &denial.hint));
        Self {
            success: report.is_success(),
            outcome,
            exit_status,
            limit,
            stdout: shortened(&report.stdout.to_text_lossy()),
            stderr: shortened(&report.stderr.to_text_lossy()),
            value: value.map(shortened),
            error: report.error.as_ref().map(|error| ErrorOutput {
                name: shortened(&error.name),
                message: shortened(&error.value),
                line: error.line,
            }),
            files: changed.take(MAX_FILES).map(|file| feedback::one_line(file.guest.as_ref())).collect(),
            notes: missing.chain(denials).chain(report.spilled.iter().map(ToString::to_string)).collect(),
            isolation: report.provenance.isolation.as_str(),
            wall_ms: report.usage.wall.as_secs_f64() * 1000.0,
            state_kept: report.session.as_ref().map(|session| session.is_kept),
            state_lost: report.session.as_ref().map(|session| session.was_lost),
            restored_from: report.session.as_ref().and_then(|session| session.restored_from.clone()),
        }
    }
}

/// Returns the result of a program or a cell: Markdown, its images, and the structured form. A program that failed is an error.
pub(crate) fn of_run(report: &RunReport, more: Vec<ContentBlock>) -> CallToolResult {
    let mut content = vec![ContentBlock::text(feedback::of_run(report, OutputShape::default()))];
    content.extend(images(report).take(MAX_IMAGES));
    content.extend(more);
    structured(&RunOutput::of(report), content, !report.is_success())
}

/// Returns the result of blocks.
pub(crate) fn of_blocks(report: &BlocksReport) -> CallToolResult {
    let runs = || report.blocks.iter().filter_map(|one| one.result.as_ref()?.as_ref().ok());
    let blocks = report.blocks.iter().map(|one| BlockOutput {
        number: one.block.number,
        language: one.block.language.as_str(),
        line: one.block.line,
        status: match one.status {
            BlockStatus::Passed => "passed",
            BlockStatus::Failed => "failed",
            BlockStatus::Skipped => "skipped",
            BlockStatus::NotRun => "not_run",
        },
        run: one.result.as_ref().and_then(|result| result.as_ref().ok()).map(RunOutput::of),
        refused: one.result.as_ref().and_then(|result| result.as_ref().err()).map(|error| error.message().to_owned()),
    });
    let output = BlocksOutput { success: report.is_success(), blocks: blocks.collect() };
    let mut content = vec![ContentBlock::text(feedback::of_blocks(report, OutputShape::default()))];
    content.extend(runs().flat_map(images).take(MAX_IMAGES));
    structured(&output, content, !report.is_success())
}

/// Returns a result with a text for models and a structured form.
pub(crate) fn of(text: String, output: &impl Serialize) -> CallToolResult {
    structured(output, vec![ContentBlock::text(text)], false)
}

/// Returns the result of a call that was refused.
pub(crate) fn refused(error: &RunnerError) -> CallError {
    Box::new(CallToolResult::error(vec![ContentBlock::text(feedback::refusal(error))]))
}

/// Returns the result of a call with wrong arguments.
pub(crate) fn invalid(message: impl Into<String>) -> CallError {
    Box::new(CallToolResult::error(vec![ContentBlock::text(feedback::one_line(&message.into()))]))
}

fn structured(output: &impl Serialize, content: Vec<ContentBlock>, is_error: bool) -> CallToolResult {
    let mut result = if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = serde_json::to_value(output).ok();
    result
}

/// Returns the images of a run: of each result the first form that clients show.
fn images(report: &RunReport) -> impl Iterator<Item = ContentBlock> {
    report.results.iter().filter_map(|result| {
        let kind = IMAGES.into_iter().find(|kind| result.data.contains_key(*kind))?;
        Some(ContentBlock::image(result.data.get(kind)?.as_str()?, kind))
    })
}
