//! MCP servers whose tools programs call.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use codebox_core::{ResultKind, RunnerError, ToolFailure};
use codebox_tools::Tool;
use rmcp::ServiceExt as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientConfig, ContentBlock, Implementation, PaginatedRequestParams,
};
use rmcp::service::{RoleClient, RunningService};
use serde_json::{Value, json};
use tokio::time::timeout;

use self::lines::Failure;
use self::process::ServerProcess;

mod lines;
mod process;

/// Maximum time in which a server starts and lists its tools. It may have to be downloaded.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum number of tools of a server.
const MAX_TOOLS: usize = 1_000;

/// Maximum size of the descriptions and schemas of the tools of a server in bytes.
const MAX_LIST_SIZE: usize = 8 << 20;

/// Command line of a server, with a name that its tools get as a prefix: `[NAME=]COMMAND`. The words of the command are separated and quoted as
/// in a shell; no shell runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCommand {
    prefix: Option<String>,
    words: Vec<String>,
}

impl fmt::Display for ServerCommand {
    /// Writes a text that is read as the same command.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(prefix) = &self.prefix {
            write!(f, "{prefix}=")?;
        }
        f.write_str(&shell_words::join(&self.words))
    }
}

impl FromStr for ServerCommand {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name =
            |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        let (prefix, command) = match text.split_once('=') {
            Some((name, command)) if is_name(name) => (Some(name.to_owned()), command),
            _ => (None, text),
        };
        let words = shell_words::split(command).map_err(|error| error.to_string())?;
        if words.is_empty() {
            return Err("the command is empty".to_owned());
        }
        Ok(Self { prefix, words })
    }
}

/// Log output of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerLog {
    /// It is passed on to the standard error of this process.
    Shown,
    /// It is discarded.
    Hidden,
}

/// Tools of a server.
#[derive(Default)]
pub struct ServerTools {
    /// Tools that programs can call.
    pub tools: Vec<Tool>,
    /// Names of the tools that cannot be used, each with the reason, in one line.
    pub unusable: Vec<String>,
}

type Service = RunningService<RoleClient, ClientConfig>;

/// A server that runs, and its process group, which ends after the connection.
struct Server {
    service: Service,
    failure: Failure,
    _process: ServerProcess,
}

/// Starts a server, and returns its tools. The server ends when the last of them is dropped. Requires a tokio runtime with time and I/O
/// enabled, in which the messages of the server are handled.
///
/// # Errors
/// Returns an error if the server cannot be started, does not follow the protocol, has more than 1,000 tools or descriptions of more than
/// 8 MiB, or has tools of which none can be used.
pub async fn tools_of_server(server: &ServerCommand, log: ServerLog) -> Result<ServerTools, RunnerError> {
    let shown = server.words.join(" ");
    let failed = |why: String| {
        let line = format!("cannot use the MCP server `{}`: {why}", shown.escape_debug());
        RunnerError::new(ResultKind::InvalidRequest, line).with_fix("run the command by itself to see its messages")
    };
    let (process, input, output) = ServerProcess::start(&server.words, log).map_err(|error| {
        let program = server.words.first().map(String::as_str).unwrap_or_default();
        failed(format!("cannot start {}: {error}", program.escape_debug()))
    })?;
    let (output, failure) = lines::checked(output);
    let started = async {
        let mut info = ClientConfig::default();
        info.client_info = Implementation::new("codebox", env!("CARGO_PKG_VERSION"));
        let reason = |error: String| failure.get().cloned().unwrap_or(error);
        let service = info.serve((output, input)).await.map_err(|error| reason(error.to_string()))?;
        let tools = list(&service).await.map_err(reason)?;
        Ok::<_, String>((service, tools))
    };
    let (service, tools) = match timeout(START_TIMEOUT, started).await {
        Ok(started) => started.map_err(failed)?,
        Err(_) => return Err(failed(format!("it has not listed its tools within {} s", START_TIMEOUT.as_secs()))),
    };
    let running = Arc::new(Server { service, failure, _process: process });
    let mut all = ServerTools::default();
    for tool in tools {
        let name = tool.name.to_string();
        match tool_of(&running, server.prefix.as_deref(), tool) {
            Ok(tool) => all.tools.push(tool),
            Err(why) => {
                let line =
                    format!("the tool {} of `{}` cannot be used: {why}", name.escape_debug(), shown.escape_debug());
                all.unusable.push(line);
            }
        }
    }
    match (all.tools.is_empty(), all.unusable.first()) {
        (true, Some(why)) => Err(failed(why.clone())),
        _ => Ok(all),
    }
}

/// Lists the tools of a server, within a maximum number and size.
async fn list(service: &Service) -> Result<Vec<rmcp::model::Tool>, String> {
    let (mut tools, mut size, mut cursor) = (Vec::new(), 0, None);
    for _ in 0..MAX_TOOLS {
        let page = service.list_tools(Some(PaginatedRequestParams::default().with_cursor(cursor.clone())));
        let page = page.await.map_err(|error| error.to_string())?;
        for tool in page.tools {
            size += serde_json::to_vec(&tool).map_or(0, |text| text.len());
            tools.push(tool);
        }
        if tools.len() > MAX_TOOLS || size > MAX_LIST_SIZE {
            return Err(format!(
                "it has more than {MAX_TOOLS} tools, or their descriptions more than {MAX_LIST_SIZE} bytes"
            ));
        }
        match page.next_cursor {
            None => return Ok(tools),
            next if next == cursor => return Err("it repeats a page of its tools".to_owned()),
            next => cursor = next,
        }
    }
    Err(format!("its list of tools has more than {MAX_TOOLS} pages"))
}

/// Returns a tool that calls one of a server.
fn tool_of(server: &Arc<Server>, prefix: Option<&str>, tool: rmcp::model::Tool) -> Result<Tool, String> {
    let rmcp::model::Tool { name: remote, description, input_schema, output_schema, .. } = tool;
    let name = prefix.map_or_else(|| remote.to_string(), |prefix| format!("{prefix}.{remote}"));
    let input = Value::Object((*input_schema).clone());
    let server = Arc::clone(server);
    let call = move |input: Value| {
        let (server, remote) = (Arc::clone(&server), remote.clone());
        async move {
            let Value::Object(arguments) = input else {
                return Err(ToolFailure::new(ToolFailure::INVALID_INPUT, "the input is not an object"));
            };
            let request = CallToolRequestParams::new(remote).with_arguments(arguments);
            let called = server.service.call_tool(request).await;
            let result = called.map_err(|error| {
                // The reason that the connection has ended says more.
                let why = server.failure.get().cloned().unwrap_or_else(|| error.to_string());
                ToolFailure::new(ToolFailure::FAILED, why)
            })?;
            output_of(result)
        }
    };
    let tool = Tool::new(&name, description.unwrap_or_default(), input, call).map_err(|error| error.to_string())?;
    match output_schema {
        Some(schema) => tool.with_output(Value::Object((*schema).clone())).map_err(|error| error.to_string()),
        None => Ok(tool),
    }
}

/// Returns the output of a call: its structured content, its text, or a list of its contents.
fn output_of(result: CallToolResult) -> Result<Value, ToolFailure> {
    let text = || {
        let texts: Option<Vec<&str>> = result.content.iter().map(|one| Some(one.as_text()?.text.as_str())).collect();
        texts.map(|texts| texts.join("\n"))
    };
    if result.is_error == Some(true) {
        let message = text().unwrap_or_else(|| "the tool failed".to_owned());
        return Err(ToolFailure::new(ToolFailure::FAILED, message));
    }
    if let Some(structured) = result.structured_content {
        return Ok(structured);
    }
    Ok(match text() {
        Some(text) => Value::String(text),
        None => result.content.iter().map(content_of).collect(),
    })
}

fn content_of(content: &ContentBlock) -> Value {
    serde_json::to_value(content).unwrap_or_else(|_| json!(null))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_words_and_a_name() {
        let parsed = |text: &str| text.parse::<ServerCommand>().map(|server| (server.prefix, server.words));
        let words = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(parsed("npx -y 'a b'"), Ok((None, words(&["npx", "-y", "a b"]))));
        assert_eq!(parsed("git=uvx server"), Ok((Some("git".to_owned()), words(&["uvx", "server"]))));
        // An assignment in the command is none of the name.
        assert_eq!(parsed("server --a=b"), Ok((None, words(&["server", "--a=b"]))));
        for wrong in ["", "  ", "a=", "a 'b"] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn outputs_have_the_simplest_form() {
        let text = |text: &str| ContentBlock::text(text);
        assert_eq!(output_of(CallToolResult::success(vec![text("a"), text("b")])), Ok(json!("a\nb")));
        assert_eq!(output_of(CallToolResult::structured(json!({ "a": 1 }))), Ok(json!({ "a": 1 })));
        let mixed = output_of(CallToolResult::success(vec![text("a"), ContentBlock::image("AA==", "image/png")]));
        assert_eq!(mixed.expect("a list")[1]["mimeType"], "image/png");
        let failed = output_of(CallToolResult::error(vec![text("no")])).expect_err("it failed");
        assert_eq!((failed.kind.as_str(), failed.message.as_str()), ("failed", "no"));
    }
}
