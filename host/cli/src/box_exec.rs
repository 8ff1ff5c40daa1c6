//! Execution of a command in a box, for the complete command line and for the small program that starts faster.

use std::io::{self, IsTerminal as _, Read, Write as _};
use std::sync::mpsc;

use codebox_core::{
    BoxCommand, CancelToken, CommandInput, GuestError, LimitKind, Outcome, ResultKind, RunReport, RunnerError,
};
use codebox_runner::{BoxControl, BoxIo, Shaping};
use codebox_service::limit_text::limit_hit;

use crate::exit::PIPE;
use crate::interrupt::Signals;
use crate::messages::Messages;
use crate::render::unaudited_line;
use crate::streams::{Delivery, Streams};
use crate::terminal::{RawTerminal, on_resize, size};

const SIGINT: u8 = 2;
const SIGTERM: u8 = 15;
const SIGHUP: u8 = 1;

/// Number of interrupts after which the command is killed.
const MAX_INTERRUPTS: u32 = 3;

/// A command to run in a box.
pub struct BoxExec {
    /// Name of the box.
    pub name: String,
    /// The command.
    pub command: BoxCommand,
    /// True if the command gets a terminal.
    pub has_terminal: bool,
    /// True if its output is not cut.
    pub is_whole: bool,
    /// Its standard input.
    pub input: Input,
}

/// Standard input of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// That of this process.
    Stdin,
    /// An empty one.
    Empty,
}

/// Runs a command in a box with the streams of this process, reports any failure, and returns the exit status.
pub(crate) fn exec_in_box(control: &dyn BoxControl, exec: BoxExec, messages: Messages) -> u8 {
    let done =
        if exec.has_terminal { with_terminal(control, exec, messages) } else { with_streams(control, exec, messages) };
    done.unwrap_or_else(|failure| {
        messages.fail(&failure);
        failure.exit_status()
    })
}

/// Runs a command in a box, and returns its report.
pub(crate) fn run_in_box(
    control: &dyn BoxControl,
    exec: BoxExec,
    output: &mut dyn FnMut(u8, &[u8]),
) -> Result<RunReport, RunnerError> {
    run_until(control, exec, &CancelToken::new(), output)
}

fn run_until(
    control: &dyn BoxControl,
    exec: BoxExec,
    cancel: &CancelToken,
    output: &mut dyn FnMut(u8, &[u8]),
) -> Result<RunReport, RunnerError> {
    let BoxExec { name, command, is_whole, input, .. } = exec;
    let (sender, receiver) = mpsc::channel();
    if command.terminal.is_none() {
        let (interrupt, others) = Signals::handled().split();
        let (interrupts, token) = (sender.clone(), cancel.clone());
        let count = std::sync::atomic::AtomicU32::new(0);
        interrupt.each(move || {
            if count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1 >= MAX_INTERRUPTS {
                token.cancel();
            }
            let _ = interrupts.send(CommandInput::Signal(SIGINT));
        });
        let ends = sender.clone();
        others.each(move || {
            let _ = ends.send(CommandInput::Signal(SIGTERM));
        });
    } else {
        let sizes = sender.clone();
        on_resize(move || sizes.send(CommandInput::Resize(size())).is_ok());
        // The keys of the terminal reach the command; other signals end it, and the mode of the terminal is restored.
        let (_, others) = Signals::handled().split();
        let ends = sender.clone();
        others.each(move || {
            let _ = ends.send(CommandInput::Signal(SIGHUP));
        });
    }
    let stdin = match input {
        Input::Stdin => Some(Box::new(io::stdin()) as Box<dyn Read + Send>),
        Input::Empty => None,
    };
    let shaping = if is_whole { Shaping::Off } else { Shaping::Settings };
    control.exec(&name, command, BoxIo { stdin, control: Some(receiver), cancel, shaping, tool: None, output })
}

fn with_streams(control: &dyn BoxControl, exec: BoxExec, messages: Messages) -> Result<u8, RunnerError> {
    let cancel = CancelToken::new();
    let mut streams = Streams::live_until(cancel.clone());
    let mut output = |stream: u8, bytes: &[u8]| {
        let sink = if stream == 0 { &mut streams.io.stdout } else { &mut streams.io.stderr };
        // An error is recorded by the sink.
        let _ = sink.as_mut().map(|sink| sink.write(bytes));
    };
    let ran = run_until(control, exec, &cancel, &mut output);
    let delivery = streams.finish();
    let report = ran?;
    match delivery {
        Delivery::ReaderClosed => return Ok(PIPE),
        Delivery::Failed(error) => {
            return Err(RunnerError::new(ResultKind::InternalError, format!("cannot write standard output: {error}")));
        }
        Delivery::Complete => {}
    }
    for (name, output) in [("stdout", &report.stdout), ("stderr", &report.stderr)] {
        if output.dropped > 0 {
            messages.note(format!(
                "a part of {name} is lost: it was above --max-output, or could not be written to a file"
            ));
        }
    }
    for spilled in &report.spilled {
        messages.note(spilled);
    }
    note_end(&report, messages);
    Ok(status_of(&report))
}

/// Notes the reason of an end that is not the command's own.
fn note_end(report: &RunReport, messages: Messages) {
    if let Some(line) = unaudited_line(report) {
        messages.note(line);
    }
    if let Some(error) = &report.error {
        messages.note(error.value.clone());
    }
    match &report.outcome {
        Outcome::LimitHit(kind) => {
            let set_with = match kind {
                LimitKind::Wall => ", or --command-timeout of codebox box start",
                _ => " of codebox box start",
            };
            messages.note(format!("the command was {}{set_with}", limit_hit(*kind, &report.limits)));
        }
        Outcome::Cancelled => messages.note("the command was cancelled".to_owned()),
        _ => {}
    }
}

/// Returns the exit status: as shells have it for a command that does not exist.
pub(crate) fn status_of(report: &RunReport) -> u8 {
    match (&report.error, &report.outcome) {
        (Some(error), Outcome::Exited(_)) if error.name == GuestError::NOT_FOUND => 127,
        _ => report.exit_status(),
    }
}

/// Runs a command whose streams are a terminal of the box. The terminal of this process passes all keys on.
fn with_terminal(control: &dyn BoxControl, mut exec: BoxExec, messages: Messages) -> Result<u8, RunnerError> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        let line = "cannot give the command a terminal: standard input is none";
        return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("leave out --tty"));
    }
    exec.command.terminal = Some(size());
    let term = std::env::var_os("TERM").map(std::os::unix::ffi::OsStringExt::into_vec);
    let is_set = exec.command.env.iter().any(|(name, _)| name.as_slice() == b"TERM");
    exec.command.env.extend(term.filter(|_| !is_set).map(|term| (b"TERM".to_vec().into(), term.into())));
    let raw = RawTerminal::enter();
    let mut stdout = io::stdout();
    let mut output = |_: u8, bytes: &[u8]| {
        let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
    };
    let report = run_until(control, exec, &CancelToken::new(), &mut output)?;
    drop(raw);
    note_end(&report, messages);
    Ok(status_of(&report))
}
