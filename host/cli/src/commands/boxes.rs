//! `codebox box`.

use std::os::unix::ffi::OsStringExt;

use codebox_core::{BoxCommand, BoxInfo, Limit, ResultKind, RunnerError, Sweep, exit, wire};
use codebox_runner::{BoxControl, BoxLogEntry, BoxStart, Runner};

use crate::Host;
use crate::answer;
use crate::args::{BoxCommands, BoxExecArgs, BoxStartArgs, Idle};
use crate::box_exec::{BoxExec, Input, exec_in_box, run_in_box, status_of};
use crate::commands::tools::escaped;
use crate::messages::Messages;
use crate::render::{Table, escape_json, time};

/// Runs the command, and returns the exit status.
pub(super) fn boxes(command: BoxCommands, messages: Messages, runner: &Runner, host: Host<'_>) -> u8 {
    let control: &dyn BoxControl = &**host.boxes;
    let done = match command {
        BoxCommands::Exec(args) if args.json => return exec_as_json(*args, messages, control),
        BoxCommands::Exec(args) => exec_of(*args).map(|exec| exec_in_box(control, exec, messages)),
        BoxCommands::Start(args) => start(*args, messages, runner, control),
        BoxCommands::List { json } => list(json, control),
        BoxCommands::Logs { name, last, json } => logs(&name, last, json, control),
        BoxCommands::Stop { names } => stop(&names, messages, runner, control),
    };
    done.unwrap_or_else(|failure| {
        messages.fail(&failure);
        failure.exit_status()
    })
}

fn start(args: BoxStartArgs, messages: Messages, runner: &Runner, control: &dyn BoxControl) -> Result<u8, RunnerError> {
    let idle = match args.idle {
        Idle::Never => None,
        Idle::After(time) => Some(time),
    };
    let owner = args.owner;
    let (request, container, mut settings) = args.into_parts();
    let job = runner.prepare_box(request)?;
    settings.name.get_or_insert_with(random_name);
    let info = control.start(&BoxStart { job, container, settings, idle, owner })?;
    messages.explain(format!("container {} of {} from {}", info.container_id, info.engine, info.image));
    answer::print(&format!("{}\n", info.name))
}

/// Stops all of these boxes, also if one of them cannot be stopped.
fn stop(names: &[String], messages: Messages, runner: &Runner, control: &dyn BoxControl) -> Result<u8, RunnerError> {
    let has_ended = |name: &String| {
        control.list().is_ok_and(|boxes| boxes.iter().any(|info| info.name == *name && info.ended.is_some()))
    };
    let mut failure = None;
    let mut has_leftovers = false;
    for name in names {
        // A box whose process was killed leaves its container.
        has_leftovers |= has_ended(name);
        if let Err(error) = control.stop(name)
            && let Some(earlier) = failure.replace(error)
        {
            messages.fail(&earlier);
        }
    }
    if has_leftovers {
        runner.sweep(Sweep::Remove)?;
    }
    failure.map_or(Ok(0), Err)
}

/// Returns a name for a box. An existing one of the same name is not replaced.
fn random_name() -> String {
    let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id());
    format!("box-{:08x}", random & u64::from(u32::MAX))
}

fn exec_of(args: BoxExecArgs) -> Result<BoxExec, RunnerError> {
    let BoxExecArgs { name, tty, full, workdir, env, timeout, no_stdin, json: _, command } = args;
    let mut words = BoxCommand::new(command.into_iter().map(OsStringExt::into_vec));
    words.cwd = workdir.map(|path| path.into_bytes().into());
    words.wall = timeout.and_then(Limit::at);
    for variable in env {
        let (name, value) = variable.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
            RunnerError::new(ResultKind::InvalidRequest, format!("invalid variable {variable:?}"))
                .with_fix("write NAME=VALUE")
        })?;
        words.env.push((name.as_bytes().to_vec().into(), value.as_bytes().to_vec().into()));
    }
    let input = if no_stdin { Input::Empty } else { Input::Stdin };
    Ok(BoxExec { name, command: words, has_terminal: tty, is_whole: full, input })
}

fn exec_as_json(args: BoxExecArgs, messages: Messages, control: &dyn BoxControl) -> u8 {
    let report = match exec_of(args).and_then(|exec| run_in_box(control, exec, &mut |_, _| {})) {
        Ok(report) => report,
        Err(failure) => return answer::print_failure(&failure),
    };
    match answer::print_json(&wire::v1::RunReport::from(&report)) {
        Ok(0) => status_of(&report),
        Ok(status) => status,
        Err(failure) => {
            messages.fail(&failure);
            exit::FAILURE
        }
    }
}

fn list(json: bool, control: &dyn BoxControl) -> Result<u8, RunnerError> {
    let boxes = control.list()?;
    if json {
        return answer::print_json(&boxes);
    }
    let mut table = Table::new(["NAME", "IMAGE", "ENGINE", "STARTED", "COMMANDS", "STATE"]);
    for info in boxes {
        let state = state(&info);
        let BoxInfo { name, image, engine, created_ms, commands, .. } = info;
        table.row([name, image, engine, time(created_ms), commands.to_string(), state]);
    }
    answer::print(&table.to_string())
}

fn state(info: &BoxInfo) -> String {
    match (&info.ended, info.running) {
        (Some(reason), _) => format!("ended: {reason}"),
        (None, 0) => "idle".to_owned(),
        (None, running) => format!("{running} running"),
    }
}

fn logs(name: &str, last: usize, json: bool, control: &dyn BoxControl) -> Result<u8, RunnerError> {
    let entries = control.log(name)?;
    let shown = &entries[entries.len().saturating_sub(last)..];
    let mut text = String::new();
    for entry in shown {
        match json {
            true => {
                let line = serde_json::to_string(entry);
                let line = line.map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
                text.push_str(&format!("{}\n", escape_json(&line)));
            }
            false => text.push_str(&line_of(entry)),
        }
    }
    answer::print(&text)
}

fn line_of(entry: &BoxLogEntry) -> String {
    let BoxLogEntry { time_ms, is_shim, argv, status, wall_ms, spilled } = entry;
    let kind = if *is_shim { "shim" } else { "exec" };
    let words: Vec<String> = argv.iter().map(|word| escaped(word)).collect();
    let spilled: String = spilled.iter().map(|path| format!(" (output in {})", escaped(path))).collect();
    format!("{} {kind} {status:>3} {wall_ms:>6} ms  {}{spilled}\n", time(*time_ms), words.join(" "))
}
