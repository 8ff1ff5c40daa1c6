//! Tools for sessions, which the user's process for sessions keeps.

use std::fmt::Write as _;
use std::sync::Arc;

use codebox_core::{
    GuestPath, InputFile, Isolation, LimitOverrides, OutputShape, RunnerError, SessionContainer, Stdin,
};
use codebox_runner::{Cell, CellIo, SessionClient};
use codebox_service::{Preference, Program, Request};
use rmcp::model::CallToolResult;
use tokio::runtime::Handle;

use crate::arguments::{
    CellArguments, CheckpointArguments, ForkArguments, NewSessionArguments, SessionArguments, SessionIsolation,
    with_timeout,
};
use crate::output::{self, DoneOutput, IdsOutput, ListOutput, SessionOutput, invalid};
use crate::runs::{MAX_FILE, MAX_FILES, content_of, not_returned};
use crate::server::{Call, CallError, Server, blocking};

/// Maximum number of sessions that a call forks.
const MAX_FORKS: u32 = 64;

/// Sends a request to the process that keeps the sessions.
async fn with<T: Send + 'static>(
    server: &Server,
    request: impl FnOnce(&mut dyn SessionClient) -> Result<T, RunnerError> + Send + 'static,
) -> Result<T, CallError> {
    let sessions = Arc::clone(&server.sessions);
    blocking(move || request(&mut *sessions.connect()?)).await
}

/// Checks that calls may use a session.
fn check(server: &Server, id: &str) -> Result<(), CallError> {
    match server.may_use(id) {
        true => Ok(()),
        // The answer is the same for sessions of others.
        false => Err(invalid(format!("there is no session {id} of this server; see session_list"))),
    }
}

pub(crate) async fn create(
    server: &Server,
    arguments: NewSessionArguments,
    call: Call,
) -> Result<CallToolResult, CallError> {
    let request = Request {
        program: Program::Inline(String::new()),
        language: Some(arguments.language.into()),
        packages: [call.request.packages.clone(), arguments.packages].concat(),
        isolation: match arguments.isolation {
            SessionIsolation::Wasm => call.request.isolation,
            SessionIsolation::Container => Preference::Only(Isolation::Container),
        },
        // They are those of this process, and named with each cell.
        tools: Vec::new(),
        ..call.request
    };
    let runner = Arc::clone(&server.runner);
    let job = blocking(move || runner.prepare_session(request)).await?;
    let id = with(server, move |client| client.create(job, SessionContainer::default())).await?;
    Ok(ids(server, vec![id]))
}

fn ids(server: &Server, sessions: Vec<String>) -> CallToolResult {
    server.add_own(&sessions);
    output::of(sessions.join("\n"), &IdsOutput { sessions })
}

pub(crate) async fn exec(server: &Server, arguments: CellArguments, call: Call) -> Result<CallToolResult, CallError> {
    check(server, &arguments.session)?;
    let wall = call.request.limits.wall;
    let limits = LimitOverrides { wall, ..LimitOverrides::default() };
    let limits = with_timeout(limits, arguments.timeout_seconds).map_err(invalid)?;
    let files = arguments.files.into_iter().map(InputFile::try_from).collect::<Result<_, _>>().map_err(invalid)?;
    if arguments.outputs.len() > MAX_FILES {
        return Err(invalid(format!("at most {MAX_FILES} files can be returned")));
    }
    let path = |name: &String| {
        let path = if name.starts_with('/') { name.clone() } else { format!("/work/{name}") };
        GuestPath::new(&path).map_err(|error| invalid(error.to_string()))
    };
    let returns = arguments.outputs.iter().map(path).collect::<Result<_, _>>()?;
    let stdin = match arguments.stdin.is_empty() {
        true => Stdin::Empty,
        false => Stdin::Bytes(arguments.stdin.into_bytes()),
    };
    let mut io = call.io();
    let tools = server.runner.tools_of_cell(&call.request.tools, Handle::current());
    let report = with(server, move |client| {
        let cancel = io.cancel.clone();
        let mut output = |stream: u8, bytes: &[u8]| {
            let sink = if stream == 0 { &mut io.stdout } else { &mut io.stderr };
            // The output is in the report.
            let _ = sink.as_mut().map(|sink| sink.write(bytes));
        };
        let cell = Cell { limits, stdin, files, returns, ..Cell::from(arguments.code) };
        client.exec(&arguments.session, cell, CellIo { cancel: &cancel, tools, suspends: None, output: &mut output })
    });
    let mut report = report.await?;
    let returned = std::mem::take(&mut report.returned).into_iter().map(|file| match file.content {
        Ok(bytes) if bytes.len() as u64 > MAX_FILE => {
            not_returned(file.path.as_ref(), &format!("it is larger than {MAX_FILE} bytes"))
        }
        Ok(bytes) => content_of(file.path.as_str().trim_start_matches("/work/"), bytes.into_vec()),
        Err(why) => not_returned(file.path.as_ref(), &why),
    });
    let returned = returned.collect();
    server.runner.keep_whole_outputs(&mut report, OutputShape::default());
    Ok(output::of_run(&report, returned))
}

pub(crate) async fn fork(server: &Server, arguments: ForkArguments) -> Result<CallToolResult, CallError> {
    let ForkArguments { session, count } = arguments;
    if count == 0 || count > MAX_FORKS {
        return Err(invalid(format!("count must be from 1 to {MAX_FORKS}")));
    }
    check(server, &session)?;
    let forked = with(server, move |client| client.fork(&session, count)).await?;
    Ok(ids(server, forked))
}

pub(crate) async fn checkpoint(server: &Server, arguments: CheckpointArguments) -> Result<CallToolResult, CallError> {
    let CheckpointArguments { session, name } = arguments;
    check(server, &session)?;
    with(server, move |client| client.checkpoint(&session, &name)).await?;
    Ok(done("saved"))
}

pub(crate) async fn restore(server: &Server, arguments: CheckpointArguments) -> Result<CallToolResult, CallError> {
    let CheckpointArguments { session, name } = arguments;
    check(server, &session)?;
    with(server, move |client| client.restore(&session, &name)).await?;
    Ok(done("restored"))
}

pub(crate) async fn stop(server: &Server, arguments: SessionArguments) -> Result<CallToolResult, CallError> {
    check(server, &arguments.session)?;
    with(server, move |client| client.stop(&arguments.session)).await?;
    Ok(done("stopped"))
}

fn done(text: &str) -> CallToolResult {
    output::of(text.to_owned(), &DoneOutput { done: true })
}

pub(crate) async fn list(server: &Server) -> Result<CallToolResult, CallError> {
    let sessions = with(server, |client| client.list()).await?;
    let sessions: Vec<SessionOutput> = sessions
        .into_iter()
        .filter(|session| server.may_use(&session.id))
        .map(|session| SessionOutput {
            id: session.id,
            language: session.language,
            state: session.state.as_str().to_owned(),
            checkpoints: session.checkpoints,
        })
        .collect();
    let mut text = if sessions.is_empty() { "There are no sessions.\n".to_owned() } else { String::new() };
    for SessionOutput { id, language, state, checkpoints } in &sessions {
        let checkpoints = if checkpoints.is_empty() { String::new() } else { format!(", {}", checkpoints.join(", ")) };
        let _ = writeln!(text, "- {id}: {language}, {state}{checkpoints}");
    }
    Ok(output::of(text, &ListOutput { sessions }))
}
