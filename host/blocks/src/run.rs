//! Execution of blocks.

use std::collections::BTreeMap;
use std::sync::Arc;

use codebox_core::{ExecIo, Language, RunnerError};
use codebox_runner::{Cell, Runner, Session};
use codebox_service::{Program, Request};

use crate::ordered::Recorder;
use crate::parse::{Block, BlockLanguage};
use crate::report::{BlockReport, BlockStatus, BlocksReport};

/// Options of a run of blocks.
#[derive(Debug, Clone)]
pub struct Options {
    /// Grants and limits of each block. Time and output are limited for each block, the others for each session. The packages are those
    /// of Python, and the image is the container image of blocks of a shell; the program and the language are ignored.
    pub request: Request,
    /// Packages of blocks in JavaScript and TypeScript, as npm names them.
    pub node_packages: Vec<String>,
    /// True to run each block as a program of its own, which may run in a container, instead of in a session of its language.
    pub isolated: bool,
    /// True to go on after a block that failed.
    pub keep_going: bool,
}

/// Receiver of the progress of blocks.
pub trait Observer: Send {
    /// Returns the streams of a block that is about to run.
    fn started(&mut self, _block: &Block) -> ExecIo {
        ExecIo::none()
    }

    /// Receives the result of a block.
    fn ended(&mut self, _report: &BlockReport) {}
}

/// Observer that ignores all events.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Observer for Silent {}

/// Runs blocks in their order: those of a language in one session, and each block of a shell in a container of its own. Stops at the first
/// block that fails, unless the options say otherwise, and at a cancellation. Requires a tokio runtime with time enabled.
pub async fn run(
    runner: &Arc<Runner>,
    blocks: Vec<Block>,
    options: &Options,
    observer: &mut dyn Observer,
) -> BlocksReport {
    let mut sessions = Sessions { runner, options, open: BTreeMap::new() };
    let mut reports = Vec::with_capacity(blocks.len());
    let mut is_stopped = false;
    for block in blocks {
        let report = if block.skip {
            BlockReport::not_run(block, BlockStatus::Skipped)
        } else if is_stopped {
            BlockReport::not_run(block, BlockStatus::NotRun)
        } else {
            let mut io = observer.started(&block);
            let report = Box::pin(sessions.run(block, &mut io)).await;
            drop(io);
            is_stopped = report.is_cancelled() || (report.status == BlockStatus::Failed && !options.keep_going);
            report
        };
        observer.ended(&report);
        reports.push(report);
    }
    sessions.close().await;
    BlocksReport { blocks: reports }
}

/// The sessions of the languages so far.
struct Sessions<'r> {
    runner: &'r Arc<Runner>,
    options: &'r Options,
    open: BTreeMap<BlockLanguage, BlockSession>,
}

struct BlockSession {
    session: Session,
    /// Numbers of the blocks that ran in the current interpreter.
    cells: Vec<usize>,
}

impl Sessions<'_> {
    async fn run(&mut self, block: Block, io: &mut ExecIo) -> BlockReport {
        match block.language.of_session() {
            Some(language) if !self.options.isolated => Box::pin(self.run_cell(block, language, io)).await,
            language => {
                let request = self.program(&block, language);
                let ran = self.runner.run_async_with(request, io).await;
                BlockReport::ended(block, ran, Vec::new())
            }
        }
    }

    /// Returns the request of a block that is a program of its own.
    fn program(&self, block: &Block, language: Option<Language>) -> Request {
        match language {
            Some(language) => Request { program: Program::Inline(block.code.clone()), ..self.request(language) },
            None => {
                let command = [block.language.as_str(), "-c", &block.code].map(str::to_owned);
                let program = Program::Command(command.to_vec());
                Request {
                    program,
                    language: None,
                    packages: Vec::new(),
                    tools: Vec::new(),
                    results: false,
                    ..self.options.request.clone()
                }
            }
        }
    }

    /// Returns the request of a language, without a program.
    fn request(&self, language: Language) -> Request {
        let request = self.options.request.clone();
        let packages = match language {
            Language::Python => request.packages,
            _ => self.options.node_packages.clone(),
        };
        Request { language: Some(language), packages, image: None, results: true, ..request }
    }

    async fn run_cell(&mut self, block: Block, language: Language, io: &mut ExecIo) -> BlockReport {
        let session = match self.open.remove(&block.language) {
            Some(open) => Ok(open),
            None => self.open(language).await,
        };
        let mut open = match session {
            Ok(open) => open,
            Err(error) => return BlockReport::ended(block, Err(error), Vec::new()),
        };
        open.cells.push(block.number);
        let recorder = Recorder::of(io);
        let ran = open.session.exec_with(Cell::from(block.code.clone()), io).await;
        let cells = open.cells.clone();
        match &ran {
            Ok(report) if report.is_kept() => {}
            // A cell that was refused has no number.
            Err(_) if open.session.is_live().await => drop(open.cells.pop()),
            // The next interpreter counts its cells from 1.
            _ => open.cells.clear(),
        }
        self.open.insert(block.language, open);
        BlockReport { parts: recorder.take(), ..BlockReport::ended(block, ran, cells) }
    }

    async fn open(&self, language: Language) -> Result<BlockSession, RunnerError> {
        let session = self.runner.session(self.request(language)).await?.named("blocks");
        Ok(BlockSession { session, cells: Vec::new() })
    }

    async fn close(self) {
        for open in self.open.into_values() {
            open.session.close().await;
        }
    }
}
