//! Host tools of the command line: those of the configuration, and of MCP servers.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use codebox_core::{
    CancelToken, ResultKind, RunnerError, ToolCall, ToolCalls as _, ToolDescription, ToolName, ToolResult,
};
use codebox_mcp::{ServerLog, ServerTools, tools_of_server};
use codebox_runner::CellTools;
use codebox_tools::{Decision, ToolRequest, Toolbox};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use crate::args::ToolArgs;
use crate::interrupt::Signals;
use crate::messages::{Messages, Verbosity};
use crate::progress::progress;
use crate::{Host, ToolCaller};

/// Maximum time that the end of this process waits for the servers.
const SERVER_END_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of bytes of an input that is shown with a question, and in a note.
const MAX_SHOWN: usize = 1_500;

/// Calls that the user has to approve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Questions {
    /// The user answers at the terminal of this process.
    AtTerminal,
    /// They are refused: the terminal is that of another program.
    Refused,
    /// The user answers at the terminal of this process. Without one, the cell is suspended.
    AtTerminalOrLater,
    /// The cell is suspended.
    Later,
}

/// The tools of a command, whose servers end with this value.
pub(super) struct CommandTools {
    executor: Option<Runtime>,
    toolbox: Arc<Toolbox>,
    names: Vec<ToolName>,
    /// Data for the command that resumes a cell, if cells are to be suspended.
    client: Option<String>,
}

/// A call that has ended.
pub(super) struct Called {
    pub(super) result: ToolResult,
    pub(super) call: Option<ToolCall>,
    /// Facts about the run of the tool; `null` if it has not run.
    pub(super) facts: serde_json::Value,
}

/// Tools of a command whose cell is suspended.
#[derive(Debug, Serialize, Deserialize)]
struct SuspendedTools {
    tools: Vec<ToolName>,
    mcp: Vec<String>,
    /// Working directory, which determines the tools of the project and the programs of servers.
    dir: Option<PathBuf>,
}

impl SuspendedTools {
    fn of(args: &ToolArgs) -> Self {
        Self { tools: args.tools.clone(), mcp: args.mcp.iter().map(ToString::to_string).collect(), dir: working_dir() }
    }
}

/// Returns the working directory, without links in its path.
fn working_dir() -> Option<PathBuf> {
    std::env::current_dir().and_then(|dir| dir.canonicalize()).ok()
}

/// Returns the tools of a command whose cell is suspended.
pub(super) fn tools_of_suspended(client: &str) -> Result<ToolArgs, RunnerError> {
    let failed =
        |error: String| RunnerError::new(ResultKind::InternalError, format!("cannot read the suspended cell: {error}"));
    let SuspendedTools { tools, mcp, dir } = serde_json::from_str(client).map_err(|error| failed(error.to_string()))?;
    if dir.is_none() || dir != working_dir() {
        let dir = dir.unwrap_or_default().display().to_string();
        let line = "the tools of the suspended cell belong to another directory than the current one".to_owned();
        let fix = format!("run this command in the directory of the cell: {}", escaped(&dir));
        return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix));
    }
    let mcp = mcp.iter().map(|text| text.parse()).collect::<Result<_, String>>().map_err(failed)?;
    Ok(ToolArgs { tools, mcp })
}

impl CommandTools {
    /// Starts the servers, and puts the tools of a program together; `None` without tools.
    pub(super) fn connect(
        args: &ToolArgs,
        questions: Questions,
        messages: Messages,
        host: Host<'_>,
    ) -> Result<Option<Self>, RunnerError> {
        Self::connect_for(ToolCaller::Program, args, questions, messages, host)
    }

    /// As [`connect`](Self::connect), for calls of this caller.
    pub(super) fn connect_for(
        caller: ToolCaller,
        args: &ToolArgs,
        questions: Questions,
        messages: Messages,
        host: Host<'_>,
    ) -> Result<Option<Self>, RunnerError> {
        if args.is_empty() {
            return Ok(None);
        }
        let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let executor = executor.map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
        let log = if messages.verbosity() == Verbosity::Verbose { ServerLog::Shown } else { ServerLog::Hidden };
        let mut of_servers = Vec::new();
        let cancel = CancelToken::new();
        if !args.mcp.is_empty() {
            Signals::handled().cancel(cancel.clone());
        }
        for server in &args.mcp {
            let started = executor.block_on(async {
                tokio::select! {
                    started = tools_of_server(server, log) => started,
                    () = cancel.cancelled() => {
                        let line = "it was cancelled while an MCP server started".to_owned();
                        Err(RunnerError::new(ResultKind::Cancelled, line))
                    }
                }
            });
            let ServerTools { tools, unusable } = started?;
            unusable.into_iter().for_each(|line| messages.note(line));
            of_servers.extend(tools);
        }
        let mut wanted = args.tools.clone();
        wanted.sort();
        wanted.dedup();
        let tools = (host.tools)(&wanted, of_servers, caller, progress(messages))?;
        let names = tools.iter().map(|tool| tool.name().clone()).collect();
        let toolbox = Toolbox::new(tools).map_err(|error| {
            RunnerError::of(ResultKind::InvalidRequest, &error).with_fix("give a server a name: --mcp NAME=COMMAND")
        })?;
        let toolbox = match questions {
            Questions::Refused => toolbox,
            Questions::Later => toolbox.with_approver(|_| async { Decision::Suspended }),
            Questions::AtTerminalOrLater if !has_terminal() => toolbox.with_approver(|_| async { Decision::Suspended }),
            Questions::AtTerminal | Questions::AtTerminalOrLater => toolbox.with_approver(|request| async move {
                Decision::from(tokio::task::spawn_blocking(move || is_approved(&request)).await.unwrap_or(false))
            }),
        };
        let suspends = toolbox.has_questions()
            && match questions {
                Questions::Later => true,
                Questions::AtTerminalOrLater => !has_terminal(),
                Questions::AtTerminal | Questions::Refused => false,
            };
        let client = suspends.then(|| serde_json::to_string(&SuspendedTools::of(args)).unwrap_or_default());
        Ok(Some(Self { executor: Some(executor), toolbox: Arc::new(toolbox), names, client }))
    }

    pub(super) fn toolbox(&self) -> Toolbox {
        Toolbox::clone(&self.toolbox)
    }

    /// Returns the descriptions of the tools that may be called.
    pub(super) fn descriptions(&self) -> Vec<ToolDescription> {
        self.of_cell().map(|tools| tools.run.list()).unwrap_or_default()
    }

    /// Calls a tool for the user, which is the approval as well. Returns the result, the record of the call and facts about it.
    pub(super) fn call(&self, name: &ToolName, input: Vec<u8>, cancel: &CancelToken) -> Option<Called> {
        let tools = self.of_cell()?;
        let mut result = tools.executor.block_on(tools.run.start_until(name.as_str(), input, true, cancel.clone()));
        let facts = self.toolbox.get(name).map(|tool| tool.facts().take(result.as_mut().err())).unwrap_or_default();
        Some(Called { result, call: tools.run.calls().0.pop(), facts })
    }

    pub(super) fn names(&self) -> Vec<ToolName> {
        self.names.clone()
    }

    /// Returns data for the command that resumes a cell, if cells are to be suspended at calls that need an approval.
    pub(super) fn suspends(&self) -> Option<String> {
        self.client.clone()
    }

    /// Returns the tools for one cell.
    pub(super) fn of_cell(&self) -> Option<CellTools> {
        let executor = self.executor.as_ref()?.handle().clone();
        Some(CellTools { run: self.toolbox.start_run(&self.names, executor.clone()), executor })
    }
}

impl Drop for CommandTools {
    fn drop(&mut self) {
        // The servers end with their connections.
        self.toolbox = Arc::default();
        if let Some(executor) = self.executor.take() {
            executor.shutdown_timeout(SERVER_END_TIMEOUT);
        }
    }
}

/// Returns true if this process has a terminal.
fn has_terminal() -> bool {
    std::fs::File::options().read(true).write(true).open(TERMINAL).is_ok()
}

/// Asks the user at the terminal. Without one, the call is refused.
fn is_approved(request: &ToolRequest) -> bool {
    let Ok(terminal) = std::fs::File::options().read(true).write(true).open(TERMINAL) else { return false };
    let input = printable(&request.input.to_string());
    // Text that was typed before the question, perhaps for the program, is no answer to it.
    #[cfg(unix)]
    if rustix::termios::tcflush(&terminal, rustix::termios::QueueSelector::IFlush).is_err() {
        return false;
    }
    let question = format!("codebox: the program calls the tool {} with {input}\nAllow it? [y/N] ", request.tool);
    if (&terminal).write_all(question.as_bytes()).is_err() {
        return false;
    }
    let mut answer = String::new();
    let read = BufReader::new(terminal).read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

/// Returns the start of an input as it is shown, with the number of bytes that are left out.
pub(super) fn printable(input: &str) -> String {
    let mut shown = escaped(input);
    if shown.len() > MAX_SHOWN {
        let left = shown.split_off(MAX_SHOWN).len();
        shown.push_str(&format!("...[truncated] ({left} bytes more)"));
    }
    shown
}

/// Returns an input as it is shown. It is not trusted, and does not control the terminal.
pub(super) fn escaped(input: &str) -> String {
    input.chars().flat_map(shown).collect()
}

/// Returns a character as it is shown: printable ASCII as it is, others escaped.
fn shown(c: char) -> impl Iterator<Item = char> {
    let (plain, escaped) =
        if c == ' ' || c.is_ascii_graphic() { (Some(c), None) } else { (None, Some(c.escape_unicode())) };
    plain.into_iter().chain(escaped.into_iter().flatten())
}

/// Terminal of this process.
const TERMINAL: &str = if cfg!(windows) { "CON" } else { "/dev/tty" };
