//! `codebox session`.

use std::io::{self, IsTerminal as _, Read as _, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use codebox_core::{
    CancelToken, GuestPath, InterpreterState, Outcome, ResultKind, RunReport, RunnerError, SessionInfo, Stdin, exit,
    wire,
};
use codebox_runner::{Cell, CellIo, Runner, SessionClient, SessionControl, SessionFileHead, SuspendedCell};
use codebox_service::{Denied, Process, SecretOrigin};

use crate::Host;
use crate::answer;
use crate::args::{CellArgs, ImportArgs, NewSessionArgs, ResumeArgs, SessionCommand};
use crate::commands::tools::{CommandTools, Questions, escaped, printable, tools_of_suspended};
use crate::exit::PIPE;
use crate::images::{self, Show};
use crate::interrupt::Signals;
use crate::messages::Messages;
use crate::render::{Table, explanation, notes, shown, unaudited_line};
use crate::streams::{Delivery, Streams};
use crate::text_file::read_text;

/// Maximum size of the standard input of a cell in bytes.
const MAX_STDIN: u64 = 16 << 20;

/// Runs the command, and returns the exit status.
pub(super) fn session(command: SessionCommand, messages: Messages, runner: &Runner, host: Host<'_>) -> u8 {
    let control: &dyn SessionControl = &**host.sessions;
    let done = match command {
        SessionCommand::Exec(args) if args.json => return exec_as_json(*args, messages, host),
        SessionCommand::Exec(args) => exec(*args, messages, host),
        SessionCommand::Resume(args) if args.json && !args.discard => return resume_as_json(*args, messages, host),
        SessionCommand::Resume(args) => resume(*args, messages, host),
        SessionCommand::New(args) => new(*args, runner, control),
        SessionCommand::Export { id, file, checkpoint } => export(&id, &file, checkpoint.as_deref(), control),
        SessionCommand::Import(args) => import(*args, runner, control),
        SessionCommand::Fork { id, count } => control.connect().and_then(|mut client| {
            let ids = client.fork(&id, count)?;
            print_new(&mut *client, &ids)
        }),
        SessionCommand::Checkpoint { id, name } => with(control, |client| client.checkpoint(&id, &name)),
        SessionCommand::Restore { id, name } => with(control, |client| client.restore(&id, &name)),
        SessionCommand::Get { id, path, to } => get(&id, &path, to.as_deref(), messages, control),
        SessionCommand::Secret { id, secrets } => give_secrets(&id, secrets, control),
        SessionCommand::Park { id } => with(control, |client| client.park(&id)),
        SessionCommand::Stop { ids } => with(control, |client| ids.iter().try_for_each(|id| client.stop(id))),
        SessionCommand::List { json } => list(json, control),
        SessionCommand::Show { id, json } => show(&id, json, control),
        SessionCommand::End => control.connect_if_running().and_then(|client| match client {
            Some(mut client) => client.end().map(|()| 0),
            None => Ok(0),
        }),
    };
    done.unwrap_or_else(|failure| {
        messages.fail(&failure);
        failure.exit_status()
    })
}

fn with(
    control: &dyn SessionControl,
    request: impl FnOnce(&mut dyn SessionClient) -> Result<(), RunnerError>,
) -> Result<u8, RunnerError> {
    request(&mut *control.connect()?)?;
    Ok(0)
}

fn new(args: NewSessionArgs, runner: &Runner, control: &dyn SessionControl) -> Result<u8, RunnerError> {
    let NewSessionArgs { lang, place, grants } = args;
    let (request, container) = place.of(grants.request(Some(lang)));
    let job = runner.prepare_session(request)?;
    let mut client = control.connect()?;
    let id = client.create(job, container)?;
    print_new(&mut *client, &[id])
}

/// Gives a session the values of its secrets.
fn give_secrets(id: &str, secrets: Vec<SecretOrigin>, control: &dyn SessionControl) -> Result<u8, RunnerError> {
    let value = |secret: SecretOrigin| Ok((secret.name.clone(), secret.value(&Process)?));
    let values = secrets.into_iter().map(value).collect::<Result<_, Denied>>()?;
    with(control, |client| client.give_secrets(id, values))
}

/// Writes a session to a file.
fn export(id: &str, file: &Path, name: Option<&str>, control: &dyn SessionControl) -> Result<u8, RunnerError> {
    let mut client = control.connect()?;
    let cancel = CancelToken::new();
    Signals::handled().cancel(cancel.clone());
    let mut export = |to: &mut dyn Write| client.export(id, name, &mut Cancellable { to, cancel: &cancel });
    let written = write_file(file, "the file of a session", &mut export);
    match written {
        Err(_) if cancel.is_cancelled() => Ok(exit::CANCELLED),
        written => written.map(|()| 0),
    }
}

/// Writes a file, or standard output. A regular file appears when it is complete, and takes the place of an earlier one.
fn write_file(
    file: &Path,
    what: &str,
    write: &mut dyn FnMut(&mut dyn Write) -> Result<(), RunnerError>,
) -> Result<(), RunnerError> {
    let failed = |error: io::Error| {
        RunnerError::new(ResultKind::InvalidRequest, format!("cannot write {}: {error}", file.display()))
    };
    if file == Path::new("-") {
        let mut stdout = io::stdout().lock();
        if stdout.is_terminal() {
            let line = format!("cannot write {what} to a terminal");
            return Err(
                RunnerError::new(ResultKind::InvalidRequest, line).with_fix("name a file, or redirect the output")
            );
        }
        write(&mut stdout)
    } else if std::fs::metadata(file).is_ok_and(|metadata| !metadata.is_file()) {
        // A pipe or a device is written to, and not replaced.
        write(&mut std::fs::File::options().write(true).open(file).map_err(failed)?)
    } else {
        // The target of a link is replaced, and not the link.
        let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        let dir = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut incomplete = tempfile::Builder::new().prefix(".codebox-").tempfile_in(dir).map_err(failed)?;
        write(incomplete.as_file_mut()).and_then(|()| {
            incomplete.as_file().sync_all().map_err(failed)?;
            incomplete.persist(&file).map(|_| ()).map_err(|error| failed(error.error))
        })
    }
}

/// Copies a file of a session to this machine.
fn get(
    id: &str,
    path: &Path,
    to: Option<&Path>,
    messages: Messages,
    control: &dyn SessionControl,
) -> Result<u8, RunnerError> {
    let invalid =
        |why: String| RunnerError::new(ResultKind::InvalidRequest, format!("cannot copy {}: {why}", path.display()));
    let in_guest = path.to_str().ok_or_else(|| invalid("its name is not UTF-8".to_owned()))?;
    let in_guest = if in_guest.starts_with('/') { in_guest.to_owned() } else { format!("/work/{in_guest}") };
    let in_guest = GuestPath::new(&in_guest).map_err(|error| invalid(error.to_string()))?;
    let name = path.file_name().ok_or_else(|| invalid("it is not a file".to_owned()))?;
    let to = match to {
        // As `cp` does.
        Some(to) if to.is_dir() => to.join(name),
        Some(to) => to.to_owned(),
        None => name.into(),
    };
    let cancel = CancelToken::new();
    Signals::handled().cancel(cancel.clone());
    let cell = Cell { returns: vec![in_guest], ..Cell::from("") };
    let io = CellIo { cancel: &cancel, tools: None, suspends: None, output: &mut |_, _| {} };
    let report = control.connect()?.exec(id, cell, io)?;
    state_notes(&report, id).into_iter().for_each(|line| messages.note(line));
    if !report.is_success() {
        notes(&report, None).into_iter().for_each(|line| messages.note(line));
        return Ok(report.exit_status());
    }
    let returned = report.returned.into_iter().next().ok_or_else(|| invalid("it is not returned".to_owned()))?;
    let bytes = returned.content.map_err(invalid)?;
    let failed = |error| RunnerError::of(ResultKind::InvalidRequest, &error);
    write_file(&to, "a file of a session", &mut |to| to.write_all(&bytes).map_err(failed))?;
    Ok(0)
}

/// Writer that fails after a cancellation.
struct Cancellable<'c> {
    to: &'c mut dyn Write,
    cancel: &'c CancelToken,
}

impl Write for Cancellable<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("it was cancelled"));
        }
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn import(args: ImportArgs, runner: &Runner, control: &dyn SessionControl) -> Result<u8, RunnerError> {
    let ImportArgs { file, grants } = args;
    let is_stdin = file == Path::new("-");
    let mut from: Box<dyn io::Read> = match is_stdin {
        true => Box::new(io::stdin().lock()),
        false => Box::new(std::fs::File::open(&file).map_err(|error| {
            RunnerError::new(ResultKind::InvalidRequest, format!("cannot open {}: {error}", file.display()))
        })?),
    };
    let named = |error: RunnerError| {
        let name = if is_stdin { "standard input".to_owned() } else { file.display().to_string() };
        let fix = error.fix().unwrap_or("export the session again with this version of codebox").to_owned();
        RunnerError::new(error.kind(), format!("{name}: {}", error.message())).with_fix(fix)
    };
    let head = SessionFileHead::read(&mut from).map_err(named)?;
    let job = runner.prepare_import(grants.request(None), &head)?;
    let start = io::Cursor::new(head.into_bytes());
    let mut client = control.connect()?;
    let id = client.import(job, &mut start.chain(from)).map_err(named)?;
    print_new(&mut *client, &[id])
}

/// Prints the ids of new sessions, and ends them if that fails: no other command would name them.
fn print_new(client: &mut dyn SessionClient, ids: &[String]) -> Result<u8, RunnerError> {
    let printed = print_ids(ids);
    if !matches!(printed, Ok(0)) {
        for id in ids {
            // The failure to print is reported.
            let _ = client.stop(id);
        }
    }
    printed
}

fn print_ids(ids: &[String]) -> Result<u8, RunnerError> {
    answer::print(&ids.iter().map(|id| format!("{id}\n")).collect::<String>())
}

/// Runs a cell, and prints its output, its values, and notes about it.
fn exec(args: CellArgs, messages: Messages, host: Host<'_>) -> Result<u8, RunnerError> {
    let cell = cell_of(&args)?;
    let cancel = CancelToken::new();
    Signals::handled().cancel(cancel.clone());
    let tools = CommandTools::connect(&args.tools, questions(&args), messages, host)?;
    let mut client = host.sessions.connect()?;
    let id = &args.id;
    run_shown(id, tools.as_ref(), args.show.show, cancel, messages, |io| client.exec(id, cell, io))
}

/// Runs a suspended cell again, and prints its output, its values, and notes about it.
fn resume(args: ResumeArgs, messages: Messages, host: Host<'_>) -> Result<u8, RunnerError> {
    let id = &args.id;
    let mut client = host.sessions.connect()?;
    if args.discard {
        return discard(&args, &mut *client).map(|()| 0);
    }
    let cancel = CancelToken::new();
    Signals::handled().cancel(cancel.clone());
    let cell = decided_cell(&args, &mut *client)?;
    if let Some(call) = cell.call.as_ref().filter(|_| args.approve || args.deny) {
        let decision = if args.approve { "approves" } else { "denies" };
        messages.note(format!("{decision} the call {}: {} with {}", call.id, call.name, printable(&call.input)));
    }
    let tools = CommandTools::connect(&tools_of_suspended(&cell.client)?, Questions::Later, messages, host)?;
    run_shown(id, tools.as_ref(), args.show.show, cancel, messages, |io| {
        let report = go_on(&args, &cell, &mut *client, io)?;
        if !matches!(report.outcome, Outcome::Exited(_) | Outcome::Suspended) {
            messages.note(format!(
                "unless it has had effects, the cell can be run on with `codebox session resume {id} --continue`; --discard ends it"
            ));
        }
        Ok(report)
    })
}

/// Returns the suspended cell of a session, if it waits for the call that the arguments name.
fn decided_cell(args: &ResumeArgs, client: &mut dyn SessionClient) -> Result<SuspendedCell, RunnerError> {
    let cell = client.suspended(&args.id)?;
    let waiting = cell.call.as_ref().map(|call| call.id.as_str());
    match &args.call {
        Some(call) if waiting != Some(call) => {
            let line = format!("the session {} does not wait for the call {call}", args.id);
            let fix = format!("see codebox session show {}", args.id);
            Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix))
        }
        _ => Ok(cell),
    }
}

/// Runs a suspended cell again, whose earlier calls are part of its report.
fn go_on(
    args: &ResumeArgs,
    cell: &SuspendedCell,
    client: &mut dyn SessionClient,
    io: CellIo<'_>,
) -> Result<RunReport, RunnerError> {
    if let Some(tools) = &io.tools {
        tools.run.add_earlier(cell.calls_before(args.resumption()));
    }
    client.resume(&args.id, cell.position, args.resumption(), io)
}

/// Ends a suspended cell.
fn discard(args: &ResumeArgs, client: &mut dyn SessionClient) -> Result<(), RunnerError> {
    let position = match decided_cell(args, client) {
        Ok(cell) => Some(cell.position),
        // Its record is damaged.
        Err(error) if error.kind() == ResultKind::InternalError => None,
        Err(error) => return Err(error),
    };
    client.discard(&args.id, position)
}

/// Returns the treatment of calls that need an approval.
fn questions(args: &CellArgs) -> Questions {
    if args.suspend { Questions::Later } else { Questions::AtTerminalOrLater }
}

/// Runs a cell until it ends or is cancelled, and prints its output, its values, and notes about it.
pub(super) fn run_cell(
    client: &mut dyn SessionClient,
    id: &str,
    cell: Cell,
    tools: Option<&CommandTools>,
    show: Option<Show>,
    cancel: CancelToken,
    messages: Messages,
) -> Result<u8, RunnerError> {
    run_shown(id, tools, show, cancel, messages, |io| client.exec(id, cell, io))
}

fn run_shown(
    id: &str,
    tools: Option<&CommandTools>,
    show: Option<Show>,
    cancel: CancelToken,
    messages: Messages,
    run: impl FnOnce(CellIo<'_>) -> Result<RunReport, RunnerError>,
) -> Result<u8, RunnerError> {
    let mut streams = Streams::live_until(cancel.clone());
    let mut output = |stream: u8, bytes: &[u8]| {
        let sink = if stream == 0 { &mut streams.io.stdout } else { &mut streams.io.stderr };
        // An error is recorded by the sink.
        let _ = sink.as_mut().map(|sink| sink.write(bytes));
    };
    let suspends = tools.and_then(CommandTools::suspends);
    let io = CellIo { cancel: &cancel, tools: tools.and_then(CommandTools::of_cell), suspends, output: &mut output };
    let ran = run(io);
    if let (Ok(report), Some(stdout), None) = (&ran, &mut streams.io.stdout, show) {
        for text in shown(report) {
            let _ = stdout.write(text.as_bytes());
        }
    }
    let delivery = streams.finish();
    let report = ran?;
    let delivery = match (show, delivery) {
        (Some(show), Delivery::Complete) => images::show(&report, show, messages),
        (_, delivery) => delivery,
    };
    state_notes(&report, id).into_iter().for_each(|line| messages.note(line));
    if matches!(delivery, Delivery::ReaderClosed) {
        return Ok(PIPE);
    }
    notes(&report, None).into_iter().for_each(|line| messages.note(line));
    explanation(&report).into_iter().for_each(|line| messages.explain(line));
    Ok(report.exit_status())
}

fn exec_as_json(args: CellArgs, messages: Messages, host: Host<'_>) -> u8 {
    let tools = || CommandTools::connect(&args.tools, questions(&args), messages, host);
    print_report(messages, host, tools, |client, io| client.exec(&args.id, cell_of(&args)?, io))
}

fn resume_as_json(args: ResumeArgs, messages: Messages, host: Host<'_>) -> u8 {
    let decided = std::cell::OnceCell::new();
    let tools = || {
        let cell = decided_cell(&args, &mut *host.sessions.connect()?)?;
        let tools = tools_of_suspended(&cell.client)?;
        let _ = decided.set(cell);
        CommandTools::connect(&tools, Questions::Later, messages, host)
    };
    print_report(messages, host, tools, |client, io| match decided.get() {
        Some(cell) => go_on(&args, cell, client, io),
        None => Err(RunnerError::new(ResultKind::InternalError, "the suspended cell is unknown")),
    })
}

/// Runs a cell, and prints its report as one JSON document.
fn print_report(
    messages: Messages,
    host: Host<'_>,
    tools: impl FnOnce() -> Result<Option<CommandTools>, RunnerError>,
    run: impl FnOnce(&mut dyn SessionClient, CellIo<'_>) -> Result<RunReport, RunnerError>,
) -> u8 {
    let run = || {
        let streams = Streams::collected();
        Signals::handled().cancel(streams.io.cancel.clone());
        let tools = tools()?;
        let suspends = tools.as_ref().and_then(CommandTools::suspends);
        let tools = tools.as_ref().and_then(CommandTools::of_cell);
        let io = CellIo { cancel: &streams.io.cancel, tools, suspends, output: &mut |_, _| {} };
        run(&mut *host.sessions.connect()?, io)
    };
    let report = match run() {
        Ok(report) => report,
        Err(failure) => return answer::print_failure(&failure),
    };
    explanation(&report).into_iter().for_each(|line| messages.explain(line));
    match answer::print_json(&wire::v1::RunReport::from(&report)) {
        Ok(0) => report.exit_status(),
        Ok(status) => status,
        Err(failure) => {
            messages.fail(&failure);
            exit::FAILURE
        }
    }
}

/// Returns the notes about the state of the session after a cell.
fn state_notes(report: &RunReport, id: &str) -> Vec<String> {
    let mut lines: Vec<String> = unaudited_line(report).into_iter().collect();
    let Some(state) = &report.session else { return lines };
    if let Some(call) = &state.suspended {
        lines.push(format!("the cell waits for the approval of a call: {} with {}", call.name, printable(&call.input)));
        let decide = format!("codebox session resume {id} --approve --call {}", call.id);
        lines.push(format!("approve it with `{decide}`, or use --deny or --discard"));
    }
    match (&state.restored_from, state.was_lost) {
        (Some(name), _) => {
            lines.push(format!("the session {id} was restored from the checkpoint {name} for this cell"))
        }
        (None, true) => lines.push(format!("the session {id} started without its earlier state")),
        (None, false) => {}
    }
    if !state.is_kept {
        lines.push(format!(
            "the interpreter of the session {id} has ended, and its state since the last checkpoint is lost"
        ));
    }
    lines
}

fn cell_of(args: &CellArgs) -> Result<Cell, RunnerError> {
    let text = match (&args.code, &args.file) {
        (Some(code), _) => code.clone(),
        (None, file) => read_text("the cell", file.as_deref().unwrap_or(Path::new("-")))?,
    };
    let stdin = if args.stdin { Stdin::Bytes(read_stdin(args)?) } else { Stdin::Empty };
    Ok(Cell { limits: args.limits(), stdin, ..Cell::from(text) })
}

/// Reads the standard input of a cell.
fn read_stdin(args: &CellArgs) -> Result<Vec<u8>, RunnerError> {
    let refused = |line: String, fix: &str| Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix));
    if args.code.is_none() && args.file.as_deref().is_none_or(|file| file == Path::new("-")) {
        return refused(
            "--stdin: the cell itself is read from standard input".into(),
            "pass the cell with -c or as a file",
        );
    }
    let mut bytes = Vec::new();
    match io::stdin().take(MAX_STDIN + 1).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() as u64 > MAX_STDIN => {
            refused(format!("--stdin: the input has more than {MAX_STDIN} bytes"), "grant a directory with the data")
        }
        Ok(_) => Ok(bytes),
        Err(error) => refused(format!("--stdin: cannot read standard input: {error}"), "redirect a file or a pipe"),
    }
}

/// Returns all sessions. A process that does not run yet is started, because it may find sessions on disk.
fn sessions(control: &dyn SessionControl) -> Result<Vec<SessionInfo>, RunnerError> {
    control.connect()?.list()
}

fn list(json: bool, control: &dyn SessionControl) -> Result<u8, RunnerError> {
    let sessions = sessions(control)?;
    if json {
        return answer::print_json(&serde_json::json!({ "sessions": sessions }));
    }
    let mut table = Table::new(["ID", "LANGUAGE", "STATE", "CELLS", "USED", "CHECKPOINTS"]);
    for session in sessions {
        let state = session.state.as_str().to_owned();
        let used = ago(session.used);
        let checkpoints = session.checkpoints.join(" ");
        table.row([session.id, session.language, state, session.cells.to_string(), used, checkpoints]);
    }
    answer::print(&table.to_string())
}

fn show(id: &str, json: bool, control: &dyn SessionControl) -> Result<u8, RunnerError> {
    let found = sessions(control)?.into_iter().find(|session| session.id == id);
    let session = found.ok_or_else(|| {
        RunnerError::new(ResultKind::InvalidRequest, format!("there is no session {id}"))
            .with_fix("see codebox session list")
    })?;
    if json {
        return answer::print_json(&session);
    }
    let mut lines = vec![
        format!("session      {}", session.id),
        format!("language     {}", session.language),
        format!("state        {}", session.state.as_str()),
        format!("created      {}", ago(session.created)),
        format!("used         {}", ago(session.used)),
        format!("cells        {}", session.cells),
    ];
    lines.extend(session.checkpoints.iter().map(|name| format!("checkpoint   {name}")));
    if let Some(call) = &session.suspended {
        lines.push(format!("waits for    {} with {}", call.name, escaped(&call.input)));
        lines.push(format!("call         {}", call.id));
    }
    if session.state == InterpreterState::Suspended && session.suspended.is_none() {
        let line = "waits for    --discard of `codebox session resume`, or --continue unless it has had effects";
        lines.push(line.to_owned());
    }
    answer::print(&(lines.join("\n") + "\n"))
}

fn ago(seconds: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_secs(seconds);
    let age = SystemTime::now().duration_since(time).unwrap_or_default();
    format!("{} ago", humantime::format_duration(Duration::from_secs(age.as_secs())))
}
