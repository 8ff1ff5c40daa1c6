//! `codebox blocks`.

use std::sync::Arc;

use codebox_blocks::{Block, BlockReport, BlockStatus, BlocksReport, Observer, Options, Silent, feedback, parse};
use codebox_core::{CancelToken, ExecIo, OutputShape, ResultKind, RunReport, RunnerError, ToolName, exit};
use codebox_runner::Runner;
use codebox_service::Request;

use crate::Host;
use crate::answer;
use crate::args::{BlocksArgs, ToolArgs};
use crate::commands::server_runner;
use crate::commands::tools::{CommandTools, Questions};
use crate::exit::PIPE;
use crate::images::{self, Show};
use crate::interrupt::Signals;
use crate::messages::Messages;
use crate::render::{explanation, notes, shown};
use crate::streams::{Delivery, OutputState, Streams};
use crate::text_file::read_text;

/// Runs the blocks of a text, and returns the exit status.
pub(super) fn blocks(args: BlocksArgs, messages: Messages, host: Host<'_>) -> Result<u8, RunnerError> {
    let text = read_text("the text", &args.file)?;
    let blocks = parse(&text)?;
    let is_streamed = !args.feedback && !args.json;
    if blocks.is_empty() && is_streamed {
        messages.note("the text has no blocks of a language that codebox runs");
    }
    let (runner, names) = started(&args.tools, messages, host)?;
    let options = Options {
        request: Request { image: args.image, tools: names, ..args.grants.request(None) },
        node_packages: args.with_npm,
        isolated: args.isolated,
        keep_going: args.keep_going,
    };
    let (mut report, stopped) = report_of(&runner, blocks, &options, is_streamed, args.show.show, messages)?;
    if let Some(status) = stopped {
        return Ok(status);
    }
    let printed = if args.feedback {
        report.keep_whole_outputs(&runner, OutputShape::default());
        answer::print(&feedback::of_blocks(&report, OutputShape::default()))?
    } else if args.json {
        answer::print_json(&report.to_wire())?
    } else {
        print_failures(&report, messages);
        0
    };
    Ok(if printed == 0 { report.exit_status() } else { printed })
}

/// Connects to host tools, and returns a runner and the names of the tools.
pub(super) fn started(
    tools: &ToolArgs,
    messages: Messages,
    host: Host<'_>,
) -> Result<(Arc<Runner>, Vec<ToolName>), RunnerError> {
    let tools = CommandTools::connect(tools, Questions::AtTerminal, messages, host)?;
    let names = tools.as_ref().map(CommandTools::names).unwrap_or_default();
    Ok((server_runner(messages, host, tools.as_ref()), names))
}

/// Runs blocks, and prints their output as it is written if `is_streamed`. Returns their results, and the exit status if output could not
/// be written.
pub(super) fn report_of(
    runner: &Arc<Runner>,
    blocks: Vec<Block>,
    options: &Options,
    is_streamed: bool,
    show: Option<Show>,
    messages: Messages,
) -> Result<(BlocksReport, Option<u8>), RunnerError> {
    let cancel = CancelToken::new();
    Signals::handled().cancel(cancel.clone());
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let executor = executor.map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
    let run = |observer: &mut dyn Observer| executor.block_on(codebox_blocks::run(runner, blocks, options, observer));
    Ok(if is_streamed {
        let mut live = Live { messages, cancel, output: None, status: None, show };
        let report = run(&mut live);
        (report, live.status)
    } else {
        (run(&mut Collected { cancel }), None)
    })
}

fn print_failures(report: &BlocksReport, messages: Messages) {
    for one in report.blocks.iter().filter(|one| one.status == BlockStatus::Failed) {
        let Block { number, language, line, expects_error, .. } = one.block;
        let what = match expects_error
            && one.result.as_ref().is_some_and(|result| result.as_ref().is_ok_and(RunReport::is_success))
        {
            true => "succeeded, but an error was expected",
            false => "failed",
        };
        messages.note(format!("block {number} ({}, line {line}) {what}", language.as_str()));
    }
    let left = report.blocks.iter().filter(|one| one.status == BlockStatus::NotRun).count();
    match left {
        0 => {}
        1 => messages.note("1 block was not run".to_owned()),
        left => messages.note(format!("{left} blocks were not run")),
    }
}

/// Observer that keeps the output for the results.
struct Collected {
    cancel: CancelToken,
}

impl Observer for Collected {
    fn started(&mut self, block: &Block) -> ExecIo {
        ExecIo { cancel: self.cancel.clone(), ..Silent.started(block) }
    }
}

/// Observer that prints output as it is written, and notes after each block.
struct Live {
    messages: Messages,
    cancel: CancelToken,
    output: Option<OutputState>,
    /// Exit status of this process, if output could not be written.
    status: Option<u8>,
    /// Destination of images.
    show: Option<Show>,
}

impl Live {
    /// Prints the objects that a block has shown.
    fn print(&mut self, report: &RunReport) {
        let printed = match self.show {
            Some(show) => images::show(report, show, self.messages),
            None => images::print(&shown(report).concat()),
        };
        self.status = match printed {
            Delivery::Complete => None,
            Delivery::ReaderClosed => Some(PIPE),
            Delivery::Failed(error) => {
                let line = format!("cannot write to standard output: {error}");
                self.messages.fail(&RunnerError::new(ResultKind::InternalError, line));
                Some(exit::FAILURE)
            }
        };
    }
}

impl Observer for Live {
    fn started(&mut self, block: &Block) -> ExecIo {
        let Block { number, language, line, .. } = block;
        self.messages.explain(format!("block {number} ({}, line {line})", language.as_str()));
        let streams = Streams::live_until(self.cancel.clone());
        self.output = Some(streams.output_state());
        ExecIo { stdin: None, ..streams.io }
    }

    fn ended(&mut self, one: &BlockReport) {
        let failure = self.output.take().and_then(|output| output.failure_status());
        self.status = self.status.or(failure);
        match &one.result {
            Some(Ok(report)) if self.status.is_none() => {
                self.print(report);
                notes(report, None).into_iter().for_each(|line| self.messages.note(line));
                explanation(report).into_iter().for_each(|line| self.messages.explain(line));
            }
            Some(Err(error)) => self.messages.fail(error),
            _ => {}
        }
        if self.status.is_some() {
            self.cancel.cancel();
        }
    }
}
