//! `codebox repl`.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codebox_core::{Adapter, CancelToken, ResultKind, RunnerError, exit};
use codebox_runner::{Cell, Runner, SessionControl};
use reedline::{Reedline, Signal};

use self::editor::{Session, editor};
use self::prompt::ReplPrompt;
use crate::Host;
use crate::answer;
use crate::args::ReplArgs;
use crate::commands::session::run_cell;
use crate::commands::tools::{CommandTools, Questions};
use crate::interrupt::Signals;
use crate::messages::Messages;
use crate::text_file::read_text;

mod editor;
mod highlight;
mod prompt;

/// Name of the state after the last cell.
const CHECKPOINT: &str = "repl";

/// Texts that end the loop.
const ENDS: [&str; 5] = [".exit", "exit", "exit()", "quit", "quit()"];

/// Reads cells from the terminal and runs them in a session of their own, until the end of the input. An input that is no terminal is one
/// cell.
pub(super) fn repl(args: ReplArgs, messages: Messages, runner: &Runner, host: Host<'_>) -> Result<u8, RunnerError> {
    let tools = CommandTools::connect(&args.tools, Questions::AtTerminal, messages, host)?;
    let language = args.lang;
    let (request, container) = args.place.of(args.grants.request(Some(language.clone())));
    let job = runner.prepare_session(request)?;
    let mut client = host.sessions.connect()?;
    let id = client.create(job, container)?;
    // An interrupt cancels the current cell. The other signals end the session, also while the terminal is read.
    let current = Arc::new(Mutex::new(CancelToken::new()));
    let (interrupt, others) = Signals::handled().split();
    let cancelled = Arc::clone(&current);
    interrupt.each(move || lock(&cancelled).cancel());
    let end = End { sessions: Arc::clone(host.sessions), id: id.clone(), keep: args.keep };
    let (cancelled, terminal) = (Arc::clone(&current), Terminal::save());
    others.each(move || {
        lock(&cancelled).cancel();
        // Without the process that keeps it, there is no session.
        let _ = end.run();
        terminal.restore();
        std::process::exit(i32::from(exit::CANCELLED));
    });
    let is_at_terminal = io::stdin().is_terminal();
    let mut run = |text: String| {
        let cancel = CancelToken::new();
        lock(&current).clone_from(&cancel);
        // A space before a cell keeps it out of the history.
        let text = text.trim_start_matches(' ').to_owned();
        let ran = run_cell(&mut *client, &id, Cell::from(text), tools.as_ref(), args.show, cancel, messages);
        // A cell that is cancelled is without effect on the state. One in a container keeps it, and a state with open files cannot be saved.
        if ran.is_ok() && is_at_terminal {
            let _ = client.checkpoint(&id, CHECKPOINT);
        }
        ran
    };
    let ended = if is_at_terminal {
        messages.note(format!("{language} in a sandbox; Ctrl-D ends, Ctrl-C cancels"));
        let session = Session { control: Arc::clone(host.sessions), id: id.clone() };
        let history_dir = (host.history_dir)().ok();
        let editor = editor(&language, session, history_dir);
        read_cells(editor, language.adapter() == Some(Adapter::Python), messages, &mut run)
    } else {
        read_text("the cell", Path::new("-")).and_then(run)
    };
    End { sessions: Arc::clone(host.sessions), id, keep: args.keep }.run()?;
    ended
}

fn lock(current: &Mutex<CancelToken>) -> MutexGuard<'_, CancelToken> {
    current.lock().unwrap_or_else(PoisonError::into_inner)
}

/// End of the session: it is stopped, or kept and its id printed.
struct End {
    sessions: Arc<dyn SessionControl + Send + Sync>,
    id: String,
    keep: bool,
}

impl End {
    fn run(&self) -> Result<(), RunnerError> {
        if self.keep {
            return answer::print(&format!("{}\n", self.id)).map(drop);
        }
        self.sessions.connect()?.stop(&self.id)
    }
}

/// Settings of the terminal before the editor changes them.
struct Terminal {
    #[cfg(unix)]
    settings: Option<rustix::termios::Termios>,
}

impl Terminal {
    fn save() -> Self {
        Self {
            #[cfg(unix)]
            settings: rustix::termios::tcgetattr(io::stdin()).ok(),
        }
    }

    fn restore(&self) {
        #[cfg(unix)]
        if let Some(settings) = &self.settings {
            // The terminal may be gone.
            let _ = rustix::termios::tcsetattr(io::stdin(), rustix::termios::OptionalActions::Now, settings);
        }
    }
}

/// Reads cells from the terminal until its end.
fn read_cells(
    mut editor: Reedline,
    is_python: bool,
    messages: Messages,
    run: &mut dyn FnMut(String) -> Result<u8, RunnerError>,
) -> Result<u8, RunnerError> {
    let prompt = ReplPrompt { is_python };
    loop {
        let line = editor.read_line(&prompt).map_err(|error| {
            RunnerError::new(ResultKind::InternalError, format!("cannot read from the terminal: {error}"))
        })?;
        match line {
            Signal::Success(text) if text.trim().is_empty() => {}
            Signal::Success(text) if ENDS.contains(&text.trim()) => return Ok(0),
            Signal::Success(text) => {
                // A later command finds the cell also if this one is killed. Without its file, the history is that of this command.
                let _ = editor.sync_history();
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
