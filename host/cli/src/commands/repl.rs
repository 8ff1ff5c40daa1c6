//! `codebox repl`.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use codebox_core::{Adapter, CancelToken, Language, ResultKind, RunnerError};
use codebox_runner::{Cell, Runner};
use reedline::{Reedline, Signal, ValidationResult, Validator};

use self::prompt::ReplPrompt;
use crate::Host;
use crate::answer;
use crate::args::ReplArgs;
use crate::commands::session::run_cell;
use crate::commands::tools::{CommandTools, Questions};
use crate::interrupt::Signals;
use crate::messages::Messages;
use crate::text_file::read_text;

mod complete;
mod prompt;

/// Texts that end the loop.
const ENDS: [&str; 5] = [".exit", "exit", "exit()", "quit", "quit()"];

/// Reads cells from the terminal and runs them in a session of their own, until the end of the input. An input that is no terminal is one
/// cell.
pub(super) fn repl(args: ReplArgs, messages: Messages, runner: &Runner, host: Host<'_>) -> Result<u8, RunnerError> {
    let tools = CommandTools::connect(&args.tools, Questions::AtTerminal, messages, host)?;
    let language = args.lang;
    let job = runner.prepare_session(args.grants.request(Some(language.clone())))?;
    let mut client = host.sessions.connect()?;
    let id = client.create(job)?;
    // A signal cancels the current cell.
    let current = Arc::new(Mutex::new(CancelToken::new()));
    let cancelled = Arc::clone(&current);
    Signals::handled().each(move || cancelled.lock().unwrap_or_else(PoisonError::into_inner).cancel());
    let mut run = |text: String| {
        let cancel = CancelToken::new();
        current.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&cancel);
        run_cell(&mut *client, &id, Cell::from(text), tools.as_ref(), cancel, messages)
    };
    let ended = if io::stdin().is_terminal() {
        messages.note(format!("{language} in a sandbox; Ctrl-D ends, Ctrl-C cancels"));
        read_cells(&language, messages, &mut run)
    } else {
        read_text("the cell", Path::new("-")).and_then(run)
    };
    if args.keep {
        answer::print(&format!("{id}\n"))?;
    } else {
        client.stop(&id)?;
    }
    ended
}

/// Reads cells from the terminal until its end.
fn read_cells(
    language: &Language,
    messages: Messages,
    run: &mut dyn FnMut(String) -> Result<u8, RunnerError>,
) -> Result<u8, RunnerError> {
    let is_python = language.adapter() == Some(Adapter::Python);
    let mut editor = Reedline::create().with_validator(Box::new(Complete { is_python })).use_bracketed_paste(true);
    let prompt = ReplPrompt { is_python };
    loop {
        let line = editor.read_line(&prompt).map_err(|error| {
            RunnerError::new(ResultKind::InternalError, format!("cannot read from the terminal: {error}"))
        })?;
        match line {
            Signal::Success(text) if text.trim().is_empty() => {}
            Signal::Success(text) if ENDS.contains(&text.trim()) => return Ok(0),
            Signal::Success(text) => {
                // A cell that is refused does not end the session.
                if let Err(error) = run(text) {
                    messages.fail(&error);
                }
            }
            Signal::CtrlD => return Ok(0),
            _ => {}
        }
    }
}

/// Decision if Enter ends a cell or a line.
struct Complete {
    is_python: bool,
}

impl Validator for Complete {
    fn validate(&self, text: &str) -> ValidationResult {
        match complete::is_complete(text, self.is_python) {
            true => ValidationResult::Complete,
            false => ValidationResult::Incomplete,
        }
    }
}
