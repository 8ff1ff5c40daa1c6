//! `codebox run`.

use std::io::{self, Read};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use codebox_core::{
    Access, Adapter, BackendError, HostPath, Language, Languages, Outcome, ResultKind, RunReport, RunnerError, Stdin,
    exit, wire,
};
use codebox_runner::{RunEnd, Runner};
use codebox_service::{ContainerTarget, EnvRequest, MAX_PROGRAM, Preference, Process, Program, Request, read_env_file};

use crate::advice::Context;
use crate::args::{ProgramLocation, RunArgs};
use crate::commands::tools::{CommandTools, Questions};
use crate::exit::PIPE;
use crate::front_end::{CommandLine, Takeover};
use crate::images::{self, Show};
use crate::messages::Messages;
use crate::progress::progress;
use crate::render::{explanation, notes};
use crate::run_terminal::{self, terminal_of};
use crate::streams::{Delivery, Streams};
use crate::trace::RunTrace;
use crate::{Host, RunHost, ServerOptions, answer};

/// A run that has ended, with its results.
struct FinishedRun {
    ended: RunEnd,
    out: Option<HostPath>,
    delivery: Delivery,
}

/// Runs a program, prints the notes about it, as lines or as one JSON document, and returns the exit status.
pub(super) fn run(
    args: RunArgs,
    messages: Messages,
    runner: &Runner,
    host: RunHost<'_>,
    trace: RunTrace,
    mut takeover: Option<&mut Takeover>,
) -> u8 {
    let is_json = args.json;
    let streams = if is_json { Streams::collected() } else { Streams::live() };
    if let Some(takeover) = &mut takeover {
        takeover.watch_preparation(streams.io.cancel.clone());
    }
    let show = args.show.show;
    let has_files = !args.dirs.is_empty() || args.project.is_some();
    let granted_none = !has_files && args.container.is_none() && args.dev_config.is_none();
    let (script, words) = match args.program() {
        Ok((ProgramLocation::File(path), words)) => (Some(path), words),
        Ok((ProgramLocation::Inline(_) | ProgramLocation::Stdin, words)) => (None, words),
        _ => (None, Vec::new()),
    };
    let has_files_here = granted_none && script.is_some() && Context::has_files_here(script.as_deref());
    let keeps_files = args.out.is_some() || args.container.is_some() || args.dev_config.is_some();
    let granted = |access: Access| {
        args.dirs.iter().filter(|dir| dir.access == access).map(|dir| dir.guest.clone()).collect::<Vec<_>>()
    };
    let (writable, read_only) = (granted(Access::ReadWrite), granted(Access::ReadOnly));
    let context =
        Context { script, words, granted_none, keeps_files, writable, read_only, has_files_here, args: host.args };
    let finished = execute(args, streams, runner, host, messages, trace, takeover.as_deref_mut());
    let why = finished.as_ref().map_or_else(|failure| failure.message(), |_| "it was cancelled");
    if takeover.is_some_and(|takeover| takeover.refuse(why)) {
        // The first process reports the end.
        return exit::FAILURE;
    }
    if is_json {
        return print_json_report(finished, messages);
    }
    let advice = match &finished {
        Ok(FinishedRun { ended: RunEnd::Report(report), .. }) => context.advice(report),
        _ => None,
    };
    let status = print_lines(finished, show, messages);
    if let Some(line) = advice {
        messages.note(line);
    }
    status
}

/// Runs a program that calls host tools, or whose images are saved. The guest runs in a process of its own, because this one is not confined.
pub(super) fn run_with_tools(mut args: RunArgs, messages: Messages, host: Host<'_>, trace: RunTrace) -> u8 {
    let tools = match CommandTools::connect(&args.tools, Questions::AtTerminal, messages, host) {
        Ok(tools) => tools,
        Err(failure) if args.json => return answer::print_failure(&failure),
        Err(failure) => {
            messages.fail(&failure);
            return failure.exit_status();
        }
    };
    args.tool_names = tools.as_ref().map(CommandTools::names).unwrap_or_default();
    let toolbox = tools.as_ref().map(CommandTools::toolbox);
    let runner = (host.server_runner)(ServerOptions { progress: progress(messages), tools: toolbox });
    run(args, messages, &runner, host.run, trace, None)
}

/// Runs a program, from arguments to a report.
fn execute(
    args: RunArgs,
    mut streams: Streams,
    runner: &Runner,
    host: RunHost<'_>,
    messages: Messages,
    trace: RunTrace,
    takeover: Option<&mut Takeover>,
) -> Result<FinishedRun, RunnerError> {
    let program_words = args.program_word_count();
    if args.warm == Some(0) {
        runner.stop_warm_pools()?;
    }
    let request = match &takeover {
        None => request(args, None)?,
        Some(takeover) if takeover.is_for_container() => request(args, takeover.program())?.in_container(),
        Some(takeover) => request(args, takeover.program())?,
    };
    let mut front_end = CommandLine::new(host, program_words, trace, streams.output_state(), takeover);
    if request.terminal.is_some() {
        streams.io.resizes = run_terminal::resizes();
        streams.io.input_modes = run_terminal::input_modes();
    }
    let ended = runner.run_for(request, &mut streams.io, &mut front_end);
    run_terminal::restore();
    let ended = ended?;
    if front_end.differs() {
        messages.note("the rerun printed different output; the output of the first attempt is shown above");
    }
    Ok(FinishedRun { ended, out: front_end.out().cloned(), delivery: streams.finish() })
}

fn print_lines(finished: Result<FinishedRun, RunnerError>, show: Option<Show>, messages: Messages) -> u8 {
    let status = finished.and_then(|FinishedRun { ended, out, delivery }| match ended {
        RunEnd::Report(_) if matches!(delivery, Delivery::ReaderClosed) => Ok(PIPE),
        RunEnd::Report(report) => {
            let delivery = match (show, delivery) {
                (Some(show), Delivery::Complete) => images::show(&report, show, messages),
                (_, delivery) => delivery,
            };
            let lines = notes(&report, out.as_ref());
            if matches!(report.outcome, Outcome::Exited(_)) {
                lines.into_iter().for_each(|line| messages.note(line));
            } else {
                print_notes_with_timeout(lines, messages);
            }
            explain(&report, messages);
            match delivery {
                Delivery::Failed(error) => Err(BackendError::io("write the guest's output", error).into()),
                Delivery::Complete | Delivery::ReaderClosed => Ok(report.exit_status()),
            }
        }
        RunEnd::TakenOver(status) => Ok(status),
    });
    status.unwrap_or_else(|failure| {
        messages.fail(&failure);
        failure.exit_status()
    })
}

fn print_json_report(finished: Result<FinishedRun, RunnerError>, messages: Messages) -> u8 {
    let report = match finished.map(|finished| finished.ended) {
        Ok(RunEnd::Report(report)) => report,
        Ok(RunEnd::TakenOver(status)) => return status,
        Err(failure) => return answer::print_failure(&failure),
    };
    explain(&report, messages);
    match answer::print_json(&wire::v1::RunReport::from(&*report)) {
        Ok(0) => report.exit_status(),
        Ok(status) => status,
        Err(failure) => {
            messages.fail(&failure);
            exit::FAILURE
        }
    }
}

/// Time limit for writing notes to a standard error that is not read, after a run that was stopped.
const NOTES_TIMEOUT: Duration = Duration::from_millis(500);

/// Prints lines from a thread that is abandoned if they are not read, because the run's output may have filled the same
/// pipe.
fn print_notes_with_timeout(lines: Vec<String>, messages: Messages) {
    let (done, printed) = mpsc::channel();
    let print = move || {
        lines.into_iter().for_each(|line| messages.note(line));
        let _ = done.send(());
    };
    if thread::Builder::new().spawn(print).is_ok() {
        let _ = printed.recv_timeout(NOTES_TIMEOUT);
    }
}

fn explain(report: &RunReport, messages: Messages) {
    for line in explanation(report) {
        messages.explain(line);
    }
}

/// Refuses a version of the interpreter of another language than that of the program.
fn check_version(args: &RunArgs, program: &ProgramLocation) -> Result<(), RunnerError> {
    let (option, adapter) = match (&args.python, &args.node) {
        (Some(_), _) => ("--python", Adapter::Python),
        (None, Some(_)) => ("--node", Adapter::Node),
        (None, None) => return Ok(()),
    };
    let of_file = || match program {
        ProgramLocation::File(path) => {
            let end = path.extension()?.to_str()?;
            Languages::default().of_extension(end)
        }
        ProgramLocation::Module(_) => Some(Language::Python),
        _ => None,
    };
    let Some(language) = args.lang.clone().or_else(of_file) else { return Ok(()) };
    // Commands of a shell can use any interpreter.
    if language.adapter().is_none_or(|own| own == adapter) {
        return Ok(());
    }
    let line = format!("cannot use {option}: the program is in {language}");
    Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("name an image with --image"))
}

/// Builds the request from the arguments. A program on standard input is read unless it is already `known`.
pub(super) fn request(args: RunArgs, known: Option<String>) -> Result<Request, RunnerError> {
    let (program, mut words) = args.program()?;
    check_version(&args, &program)?;
    let (limits, cpus) = (args.limits.overrides(), args.limits.cpus());
    let container = target(&args)?;
    let mut env = variables(&args)?;
    let terminal = terminal_of(&args)?;
    if terminal.is_some() {
        let of_terminal: Vec<_> = run_terminal::variables(&env).collect();
        env.extend(of_terminal);
    }
    let image = args.image();
    // Text without a file name can be in any language; Node runs two.
    let is_text = matches!(program, ProgramLocation::Inline(_) | ProgramLocation::Stdin);
    let language = args.python.as_ref().filter(|_| is_text).map(|_| Language::Python);
    let (program, stdin) = match program {
        ProgramLocation::Inline(code) => (Program::Inline(code), Stdin::Streamed),
        ProgramLocation::File(path) => (Program::File(path), Stdin::Streamed),
        ProgramLocation::Module(name) => (Program::Module(name), Stdin::Streamed),
        ProgramLocation::Stdin => {
            let text = known.map_or_else(|| program_text(io::stdin()), Ok)?;
            (Program::Stdin(text), Stdin::Empty)
        }
        ProgramLocation::Command => (Program::Command(std::mem::take(&mut words)), Stdin::Streamed),
    };
    Ok(Request {
        language: args.lang.or(language),
        args: words,
        dirs: args.dirs,
        project: args.project,
        work_dir: args.workdir,
        terminal,
        net: args.net,
        env,
        secrets: args.secrets,
        limits,
        cpus,
        isolation: args.isolation,
        image,
        out: args.out,
        stdin,
        warm: args.warm,
        packages: args.with,
        requirements: args.requirements,
        build: args.build,
        engine: args.engine,
        results: args.json || args.show.show.is_some(),
        output_shape: args.shape.shape(),
        tools: args.tool_names,
        container,
        powers: args.powers,
        prefers: args.prefer,
        ..Request::new(program)
    })
}

/// Returns the variables of the files and of the options, which take precedence.
fn variables(args: &RunArgs) -> Result<Vec<EnvRequest>, RunnerError> {
    let mut variables: Vec<EnvRequest> = Vec::new();
    for path in &args.env_files {
        let parsed = read_env_file(path, &Process)?;
        variables.retain(|earlier| parsed.iter().all(|later| later.name() != earlier.name()));
        variables.extend(parsed);
    }
    variables.retain(|earlier| args.env.iter().all(|given| given.name() != earlier.name()));
    variables.extend(args.env.iter().cloned());
    Ok(variables)
}

/// Returns the container that the arguments name.
fn target(args: &RunArgs) -> Result<Option<ContainerTarget>, RunnerError> {
    if let Some(config) = &args.dev_config {
        if args.isolation != Preference::DevContainer {
            let line = "cannot use --dev-config: the program does not run in the dev container";
            let fix = "add --isolation devcontainer";
            return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix));
        }
        return Ok(Some(ContainerTarget::Dev { config: Some(config.clone()) }));
    }
    if args.container.is_some() && args.isolation == Preference::DevContainer {
        let line = "cannot use --container with --isolation devcontainer: each names a container";
        return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("remove one of them"));
    }
    Ok(args.container.clone().map(ContainerTarget::Running))
}

fn program_text(from: impl Read) -> Result<String, RunnerError> {
    let mut bytes = Vec::new();
    // One byte above the maximum shows admission that the program is too large.
    let read = from.take(MAX_PROGRAM.get() + 1).read_to_end(&mut bytes);
    let refused = |why: &dyn std::fmt::Display, fix: &str| {
        let line = format!("cannot read the program from standard input: {why}");
        Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix))
    };
    if let Err(error) = read {
        return refused(&error, "pipe the program to standard input, or pass its file");
    }
    if bytes.starts_with(b"\0asm") {
        return refused(&"it is WebAssembly", "pass its file, whose name ends with .wasm");
    }
    String::from_utf8(bytes).or_else(|error| refused(&error, "save the program as UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_program_from_stdin() {
        assert_eq!(program_text(&b"print(1)"[..]).expect("text"), "print(1)");
        for (bytes, fix) in [(&b"\xff"[..], "UTF-8"), (b"\0asm\x01\0\0\0", ".wasm")] {
            let failure = program_text(bytes).expect_err("no text");
            assert_eq!(failure.kind(), ResultKind::InvalidRequest);
            assert!(failure.fix().is_some_and(|part| part.contains(fix)), "{failure:?}");
        }
    }
}
