//! The tools, and the dispatch of calls.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use codebox_core::{Access, CancelToken, ExecIo, RunnerError};
use codebox_runner::{BoxControl, Runner, SessionControl};
use codebox_service::Request;
use rmcp::handler::server::common::{schema_for_input, schema_for_output};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::arguments::{
    BlocksArguments, BoxArguments, CellArguments, CheckpointArguments, ExplainArguments, ForkArguments,
    NewSessionArguments, NoArguments, PackagesArguments, RunArguments, SessionArguments,
};
use crate::output::{
    BlocksOutput, DoneOutput, ExplainOutput, IdsOutput, ListOutput, PackagesOutput, RunOutput, invalid, refused,
};
use crate::progress::{Progress, ProgressSink};
use crate::roots::grants_of_roots;
use crate::{boxes, granted, runs, sessions};

/// Instructions for the model of the client.
const INSTRUCTIONS: &str = "\
Runs Python, JavaScript and TypeScript in a sandbox. Programs see no files, hosts or variables of this machine except those that the operator has granted. numpy, \
pandas, scipy, scikit-learn and matplotlib are part of the Python runtime; other packages can be requested. Figures and images are returned. A session keeps variables and imports between cells; \
it can be saved with a checkpoint, restored, and forked to try several continuations.";

/// Settings of the operator.
#[derive(Debug, Clone)]
pub struct Options {
    /// Grants, packages and limits of every program. Calls can name further packages, and their own time limit.
    pub request: Request,
    /// Access to the roots of the client that programs get; `None` grants no roots.
    pub roots: Option<Access>,
    /// True if calls may use all sessions of the user, and not only those that this server has created.
    pub all_sessions: bool,
    /// Boxes in which calls may run commands.
    pub boxes: Vec<String>,
    /// Maximum number of calls in progress. Further ones wait.
    pub concurrency: usize,
}

/// Name of the tool that runs commands in boxes.
const BOX_EXEC: &str = "box_exec";

/// Maximum time in which a client lists its roots.
const ROOTS_TIMEOUT: Duration = Duration::from_secs(10);

/// The server of one client.
pub(crate) struct Server {
    pub runner: Arc<Runner>,
    pub sessions: Arc<dyn SessionControl + Send + Sync>,
    pub boxes: Arc<dyn BoxControl + Send + Sync>,
    options: Options,
    calls: Semaphore,
    /// Sessions that this server has created. Others may have grants that its operator has not given.
    own_sessions: Mutex<BTreeSet<String>>,
}

/// A call in progress.
pub(crate) struct Call {
    /// Grants, packages and limits of programs.
    pub request: Request,
    pub cancel: CancelToken,
    /// Receiver of the output of programs.
    pub sink: Option<ProgressSink>,
}

impl Call {
    /// Returns the streams of a program.
    pub(crate) fn io(&self) -> ExecIo {
        let mut io = ExecIo { cancel: self.cancel.clone(), ..ExecIo::none() };
        if let Some(sink) = &self.sink {
            sink.watch(&mut io);
        }
        io
    }
}

/// Error of a call, as its result.
pub(crate) type CallError = Box<CallToolResult>;

impl Server {
    pub(crate) fn new(
        runner: Arc<Runner>,
        sessions: Arc<dyn SessionControl + Send + Sync>,
        boxes: Arc<dyn BoxControl + Send + Sync>,
        options: Options,
    ) -> Self {
        let calls = Semaphore::new(options.concurrency.max(1));
        Self { runner, sessions, boxes, options, calls, own_sessions: Mutex::default() }
    }

    /// Returns the request of the operator.
    pub(crate) fn request(&self) -> Request {
        self.options.request.clone()
    }

    /// Returns true if calls may use a session.
    pub(crate) fn may_use(&self, id: &str) -> bool {
        self.options.all_sessions || self.own().contains(id)
    }

    /// Returns the boxes in which calls may run commands.
    pub(crate) fn box_names(&self) -> &[String] {
        &self.options.boxes
    }

    /// Adds sessions that calls may use.
    pub(crate) fn add_own(&self, ids: &[String]) {
        self.own().extend(ids.iter().cloned());
    }

    fn own(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.own_sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tools of this server. Without boxes, there is no tool for them.
    fn tools(&self) -> Vec<Tool> {
        let mut tools = tools(Powers::of(&self.options));
        if self.options.boxes.is_empty() {
            tools.retain(|tool| tool.name != BOX_EXEC);
        }
        // A granted tool with the name of another is left to programs.
        let mut granted = granted::list(self);
        granted.retain(|tool| tools.iter().all(|own| own.name != tool.name));
        tools.extend(granted);
        tools
    }

    async fn call(
        &self,
        name: &str,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResult {
        let cancel = CancelToken::new();
        let progress = context.meta.get_progress_token().map(|token| Progress::start(context.peer.clone(), token));
        let sink = progress.as_ref().map(Progress::sink);
        let mut called = Box::pin(self.dispatch(name, request, context, cancel.clone(), sink));
        let result = tokio::select! {
            result = &mut called => result,
            () = context.ct.cancelled() => {
                cancel.cancel();
                called.await
            }
        };
        if let Some(progress) = progress {
            progress.finish().await;
        }
        result.unwrap_or_else(|error| *error)
    }

    async fn dispatch(
        &self,
        name: &str,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        cancel: CancelToken,
        sink: Option<ProgressSink>,
    ) -> Result<CallToolResult, CallError> {
        // These do not wait for programs.
        match name {
            "session_stop" => return sessions::stop(self, parsed(request)?).await,
            "packages" => return runs::packages(self, parsed(request)?).await,
            "session_list" => {
                let NoArguments {} = parsed(request)?;
                return sessions::list(self).await;
            }
            _ => {}
        }
        let permit = tokio::select! {
            permit = self.calls.acquire() => permit.ok(),
            () = cancel.cancelled() => None,
        };
        let Some(_permit) = permit else { return Err(invalid("the call was cancelled")) };
        let call = async |roots: Roots| {
            let prepared = self.prepare(context, cancel.clone(), sink.clone(), roots);
            tokio::select! {
                call = prepared => call,
                () = cancel.cancelled() => Err(invalid("the call was cancelled")),
            }
        };
        match name {
            "run" => Box::pin(runs::run(self, parsed(request)?, call(Roots::Granted).await?)).await,
            "run_blocks" => runs::blocks(self, parsed(request)?, call(Roots::Granted).await?).await,
            "explain" => runs::explain(self, parsed(request)?, call(Roots::Granted).await?).await,
            "session_new" => sessions::create(self, parsed(request)?, call(Roots::Granted).await?).await,
            // A session has the grants with which it was created.
            "session_exec" => sessions::exec(self, parsed(request)?, call(Roots::Unused).await?).await,
            BOX_EXEC => boxes::exec(self, parsed(request)?, call(Roots::Unused).await?).await,
            "session_fork" => sessions::fork(self, parsed(request)?).await,
            "session_checkpoint" => sessions::checkpoint(self, parsed(request)?).await,
            "session_restore" => sessions::restore(self, parsed(request)?).await,
            // Those that do not exist have been refused.
            _ => tokio::select! {
                result = granted::call(self, name, request.arguments.unwrap_or_default()) => result,
                () = cancel.cancelled() => Err(invalid("the call was cancelled")),
            },
        }
    }

    /// Returns the grants and streams of a call.
    async fn prepare(
        &self,
        context: &RequestContext<RoleServer>,
        cancel: CancelToken,
        sink: Option<ProgressSink>,
        roots: Roots,
    ) -> Result<Call, CallError> {
        let mut request = self.options.request.clone();
        if let (Roots::Granted, Some(access)) = (roots, self.options.roots) {
            let listed = timeout(ROOTS_TIMEOUT, grants_of_roots(&context.peer, access)).await;
            let listed = listed.unwrap_or_else(|_| Err("the client has not listed its roots".to_owned()));
            for root in listed.map_err(invalid)? {
                // A root that is granted already, by the operator or under another name, is granted once.
                if !request.dirs.iter().any(|dir| dir.guest == root.guest) {
                    request.dirs.push(root);
                }
            }
        }
        Ok(Call { request, cancel, sink })
    }
}

/// Use of the client's roots by a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Roots {
    Granted,
    Unused,
}

/// Parses the arguments of a call.
fn parsed<T: DeserializeOwned>(request: CallToolRequestParams) -> Result<T, CallError> {
    let arguments = serde_json::Value::Object(request.arguments.unwrap_or_default());
    serde_json::from_value(arguments).map_err(|error| invalid(format!("invalid arguments: {error}")))
}

/// Runs blocking work, and returns its result.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RunnerError> + Send + 'static,
) -> Result<T, CallError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| refused(&error)),
        Err(error) => Err(invalid(format!("the call failed: {error}"))),
    }
}

/// Effect of a tool outside of the sandbox.
#[derive(Clone, Copy)]
enum Effect {
    Reads,
    /// It runs a program, with these powers.
    Runs(Powers),
    /// It changes sessions alone.
    Changes,
    Destroys,
}

/// Powers of programs.
#[derive(Clone, Copy)]
pub(crate) struct Powers {
    /// True if they can write to files of this machine.
    pub writes: bool,
}

impl Powers {
    fn of(options: &Options) -> Self {
        let writes = options.request.dirs.iter().any(|dir| dir.access == Access::ReadWrite);
        Self { writes: writes || options.roots == Some(Access::ReadWrite) || options.all_sessions }
    }
}

fn tool<I: JsonSchema + 'static, O: JsonSchema + 'static>(
    name: &'static str,
    description: &'static str,
    effect: Effect,
) -> Tool {
    // The types are objects, and a failure would be one of this program.
    let input = schema_for_input::<I>().unwrap_or_default();
    let annotations = ToolAnnotations::new()
        .read_only(matches!(effect, Effect::Reads))
        .destructive(matches!(effect, Effect::Destroys | Effect::Runs(Powers { writes: true })))
        // Packages are fetched, and hosts may be granted.
        .open_world(matches!(effect, Effect::Runs(_)));
    Tool::new(name, description, input).with_raw_output_schema(schema_for_output::<O>()).with_annotations(annotations)
}

/// Returns all tools.
pub(crate) fn tools(powers: Powers) -> Vec<Tool> {
    use Effect::{Changes, Destroys, Reads};

    let runs = Effect::Runs(powers);

    vec![
        tool::<RunArguments, RunOutput>(
            "run",
            "Run a program in a sandbox, without state of earlier calls. Returns its output, the value of its last expression, its error with lines, and images.",
            runs,
        ),
        tool::<BlocksArguments, BlocksOutput>(
            "run_blocks",
            "Run the fenced code blocks of a Markdown text in order, those of a language in one session.",
            runs,
        ),
        tool::<ExplainArguments, ExplainOutput>(
            "explain",
            "Show in which sandbox a program would run, and why, without running it.",
            Reads,
        ),
        tool::<PackagesArguments, PackagesOutput>(
            "packages",
            "List the packages that programs can import without requesting them, and those that are stored already.",
            Reads,
        ),
        tool::<NewSessionArguments, IdsOutput>(
            "session_new",
            "Create a session, in which cells share variables, functions and imports.",
            runs,
        ),
        tool::<CellArguments, RunOutput>(
            "session_exec",
            "Run a cell in a session. An exception keeps the state of the session; a limit that is reached ends its interpreter.",
            runs,
        ),
        tool::<BoxArguments, RunOutput>(
            BOX_EXEC,
            "Run a command in a container that the operator has started for this server. Its files stay for later commands. Long output is cut; a command that is read by another one in the same shell line gives it all.",
            Effect::Runs(Powers { writes: true }),
        ),
        tool::<ForkArguments, IdsOutput>("session_fork", "Create sessions with the state of another one.", Changes),
        tool::<CheckpointArguments, DoneOutput>(
            "session_checkpoint",
            "Save the state of a session under a name. The session goes on.",
            Changes,
        ),
        tool::<CheckpointArguments, DoneOutput>(
            "session_restore",
            "Return to the state of a checkpoint. The present state is lost.",
            Destroys,
        ),
        tool::<NoArguments, ListOutput>("session_list", "List the sessions and their checkpoints.", Reads),
        tool::<SessionArguments, DoneOutput>("session_stop", "End a session and remove its checkpoints.", Destroys),
    ]
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("codebox", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(INSTRUCTIONS.to_owned());
        info
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.clone();
        if self.get_tool(&name).is_none() {
            let line = format!("there is no tool {}", name.escape_debug());
            return Err(ErrorData::invalid_params(line, None));
        }
        Ok(Box::pin(self.call(&name, request, &context)).await.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_have_schemas_of_objects() {
        for tool in tools(Powers { writes: false }) {
            assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
            assert_eq!(tool.input_schema["additionalProperties"], false, "{}", tool.name);
            assert!(tool.output_schema.is_some_and(|schema| schema["type"] == "object"), "{}", tool.name);
        }
    }
}
