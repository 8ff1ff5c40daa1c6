//! Results of blocks.

use codebox_core::{Outcome, OutputShape, RunReport, RunnerError, exit, wire};
use codebox_runner::Runner;
use serde::Serialize;

use crate::ordered::Part;
use crate::parse::Block;

/// Version of the JSON form.
const VERSION: u32 = 1;

/// Result of a block.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockReport {
    /// The block.
    pub block: Block,
    /// Outcome in relation to what the block expects.
    pub status: BlockStatus,
    /// Report of the run, or the reason that there is none. `None` if the block was not run.
    pub result: Option<Result<RunReport, RunnerError>>,
    /// For a block in a session, the number of the block of each cell so far: cell 1 is that of the first.
    pub(crate) cells: Vec<usize>,
    /// For a block in a session, its outputs in their order.
    pub(crate) parts: Vec<Part>,
}

/// Outcome of a block in relation to what it expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockStatus {
    /// The block succeeded, or failed as it expects.
    Passed,
    /// The block failed, or succeeded although it expects an error.
    Failed,
    /// The block has the flag `skip`.
    Skipped,
    /// A block before failed, or the run was cancelled.
    NotRun,
}

/// Results of the blocks of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct BlocksReport {
    /// All blocks, in the order of the text.
    pub blocks: Vec<BlockReport>,
}

impl BlocksReport {
    /// Returns true if no block failed, and all were run or skipped.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.blocks.iter().all(|one| matches!(one.status, BlockStatus::Passed | BlockStatus::Skipped))
    }

    /// Returns the first block that failed.
    #[must_use]
    pub fn first_failed(&self) -> Option<&BlockReport> {
        self.blocks.iter().find(|one| one.status == BlockStatus::Failed)
    }

    /// Returns the exit status of a process that ran the blocks: that of the first block that failed, and 1 for a block that should have
    /// failed.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        let Some(failed) = self.first_failed() else {
            return if self.is_success() { 0 } else { exit::CANCELLED };
        };
        match &failed.result {
            Some(Ok(report)) if report.is_success() => 1,
            Some(Ok(report)) => report.exit_status(),
            Some(Err(error)) => error.exit_status(),
            None => exit::FAILURE,
        }
    }

    /// Keeps the whole outputs of the blocks that are about to be shown within these limits, as
    /// [`Runner::keep_whole_outputs`].
    pub fn keep_whole_outputs(&mut self, runner: &Runner, shape: OutputShape) {
        for block in &mut self.blocks {
            if let Some(Ok(report)) = &mut block.result {
                runner.keep_whole_outputs(report, shape);
            }
        }
    }

    /// Returns the JSON form.
    #[must_use]
    pub fn to_wire(&self) -> impl Serialize + use<> {
        WireBlocks {
            version: VERSION,
            success: self.is_success(),
            blocks: self.blocks.iter().map(wire_block).collect(),
        }
    }
}

impl BlockReport {
    pub(crate) fn not_run(block: Block, status: BlockStatus) -> Self {
        Self { block, status, result: None, cells: Vec::new(), parts: Vec::new() }
    }

    /// Creates the report of a block that has ended.
    pub(crate) fn ended(block: Block, result: Result<RunReport, RunnerError>, cells: Vec<usize>) -> Self {
        let status = match &result {
            // Only an error of the program can be expected.
            Ok(report) if matches!(report.outcome, Outcome::Exited(_)) => {
                block.may_fail || report.is_success() != block.expects_error
            }
            _ => false,
        };
        let status = if status { BlockStatus::Passed } else { BlockStatus::Failed };
        Self { block, status, result: Some(result), cells, parts: Vec::new() }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        matches!(&self.result, Some(Ok(report)) if report.outcome == Outcome::Cancelled)
    }
}

#[derive(Serialize)]
struct WireBlocks {
    version: u32,
    success: bool,
    blocks: Vec<WireBlock>,
}

#[derive(Serialize)]
struct WireBlock {
    number: usize,
    language: &'static str,
    line: usize,
    expects_error: bool,
    status: BlockStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<wire::v1::RunReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<wire::v1::ErrorReport>,
}

fn wire_block(one: &BlockReport) -> WireBlock {
    let Block { number, language, line, expects_error, .. } = one.block;
    let report = one.result.as_ref().and_then(|result| result.as_ref().ok());
    let failure = one.result.as_ref().and_then(|result| result.as_ref().err());
    WireBlock {
        number,
        language: language.as_str(),
        line,
        expects_error,
        status: one.status,
        report: report.map(wire::v1::RunReport::from),
        failure: failure.map(RunnerError::to_wire),
    }
}
