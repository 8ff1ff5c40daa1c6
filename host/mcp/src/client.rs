//! MCP servers whose tools programs call.

use std::process::Stdio;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use codebox_core::{ResultKind, RunnerError, ToolFailure};
use codebox_tools::Tool;
use rmcp::ServiceExt as _;
use rmcp::model::{CallToolRequestParams, CallToolResult, ClientConfig, ContentBlock, Implementation};
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

/// Maximum time in which a server starts and lists its tools. It may have to be downloaded.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum length of the message of a failed call in bytes.
const MAX_MESSAGE: usize = 4_000;

/// Command line of a server, with a name that its tools get as a prefix: `[NAME=]COMMAND`. The words of the command are separated and quoted as
/// in a shell; no shell runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCommand {
    prefix: Option<String>,
    words: Vec<String>,
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

type Service = RunningService<RoleClient, ClientConfig>;

/// Starts a server, and returns its tools. The server ends when the last of them is dropped. Requires a tokio runtime with time and I/O
/// enabled, in which the messages of the server are handled.
///
/// # Errors
/// Returns an error if the server cannot be started, does not follow the protocol, or has a tool whose name or schema is invalid.
pub async fn tools_of_server(server: &ServerCommand, log: ServerLog) -> Result<Vec<Tool>, RunnerError> {
    let shown = server.words.join(" ");
    let failed = |why: String| {
        let line = format!("cannot use the MCP server `{}`: {why}", shown.escape_debug());
        RunnerError::new(ResultKind::InvalidRequest, line).with_fix("run the command by itself to see its messages")
    };
    let (program, args) = server.words.split_first().ok_or_else(|| failed("the command is empty".to_owned()))?;
    let mut command = Command::new(program);
    command.args(args).kill_on_drop(true);
    // A signal of the terminal is for this process, which ends the program first.
    #[cfg(unix)]
    command.process_group(0);
    let stderr = match log {
        ServerLog::Shown => Stdio::inherit(),
        ServerLog::Hidden => Stdio::null(),
    };
    let started = async {
        let (transport, _) =
            TokioChildProcess::builder(command).stderr(stderr).spawn().map_err(|error| error.to_string())?;
        let mut info = ClientConfig::default();
        info.client_info = Implementation::new("codebox", env!("CARGO_PKG_VERSION"));
        let service = info.serve(transport).await.map_err(|error| error.to_string())?;
        let tools = service.list_all_tools().await.map_err(|error| error.to_string())?;
        Ok::<_, String>((Arc::new(service), tools))
    };
    let (service, tools) = match timeout(START_TIMEOUT, started).await {
        Ok(started) => started.map_err(failed)?,
        Err(_) => return Err(failed(format!("it has not listed its tools within {} s", START_TIMEOUT.as_secs()))),
    };
    tools.into_iter().map(|tool| tool_of(&service, server.prefix.as_deref(), tool).map_err(failed)).collect()
}

/// Returns a tool that calls one of a server.
fn tool_of(service: &Arc<Service>, prefix: Option<&str>, tool: rmcp::model::Tool) -> Result<Tool, String> {
    let rmcp::model::Tool { name: remote, description, input_schema, output_schema, .. } = tool;
    let name = prefix.map_or_else(|| remote.to_string(), |prefix| format!("{prefix}.{remote}"));
    let input = Value::Object((*input_schema).clone());
    let service = Arc::clone(service);
    let call = move |input: Value| {
        let (service, remote) = (Arc::clone(&service), remote.clone());
        async move {
            let Value::Object(arguments) = input else {
                return Err(ToolFailure::new(ToolFailure::INVALID_INPUT, "the input is not an object"));
            };
            let request = CallToolRequestParams::new(remote).with_arguments(arguments);
            let called = service.call_tool(request).await;
            let result = called.map_err(|error| ToolFailure::new(ToolFailure::FAILED, error.to_string()))?;
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
        let mut message = text().unwrap_or_else(|| "the tool failed".to_owned());
        message.truncate(message.floor_char_boundary(MAX_MESSAGE));
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
        let failed = output_of(CallToolResult::error(vec![text(&"x".repeat(10_000))])).expect_err("it failed");
        assert_eq!((failed.kind.as_str(), failed.message.len()), ("failed", MAX_MESSAGE));
    }
}
