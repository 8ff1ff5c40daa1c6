//! `codebox tool`.

use std::path::Path;
use std::time::Instant;

use codebox_core::{CancelToken, ResultKind, RunnerError, ToolCall, ToolDescription, ToolFailure, ToolName, exit};
use serde_json::{Value, json};

use crate::answer;
use crate::args::{ToolArgs, ToolCommand};
use crate::commands::tools::{Called, CommandTools, Questions};
use crate::interrupt::Signals;
use crate::messages::Messages;
use crate::progress::progress;
use crate::render::{Escaped, Table, escape_json};
use crate::text_file::read_text;
use crate::{CallLevel, Host, ServerOptions, ToolCaller};

/// Lists, shows or calls tools. A call prints its failure itself.
pub(super) fn tool(command: ToolCommand, messages: Messages, host: Host<'_>) -> Result<u8, RunnerError> {
    match command {
        ToolCommand::List { json } => {
            let tools = connect((host.tool_names)()?, CallLevel::default(), messages, host)?;
            let list = tools.as_ref().map(CommandTools::descriptions).unwrap_or_default();
            match json {
                true => answer::print_json(&json!({ "tools": list })),
                false => answer::print(&listed(&list)),
            }
        }
        ToolCommand::Show { name, json } => {
            let tools = connect(vec![name], CallLevel::default(), messages, host)?;
            let list = tools.as_ref().map(CommandTools::descriptions).unwrap_or_default();
            let Some(tool) = list.first() else { return Err(denied()) };
            if json {
                return answer::print_json(tool);
            }
            let schema = |schema: &Value| escape_json(&serde_json::to_string_pretty(schema).unwrap_or_default());
            let mut text = format!("{}\n{}\n\ninput {}\n", tool.name, Escaped(&tool.description), schema(&tool.input));
            text.extend(tool.output.iter().map(|output| format!("output {}\n", schema(output))));
            answer::print(&text)
        }
        ToolCommand::Call { name, input, level } => call(name, &input, level.into(), messages, host),
    }
}

fn connect(
    names: Vec<ToolName>,
    level: CallLevel,
    messages: Messages,
    host: Host<'_>,
) -> Result<Option<CommandTools>, RunnerError> {
    let args = ToolArgs { tools: names, mcp: Vec::new() };
    CommandTools::connect_for(ToolCaller::User(level), &args, Questions::AtTerminal, messages, host)
}

fn denied() -> RunnerError {
    let line = "the tool is denied by the configuration";
    RunnerError::new(ResultKind::InvalidRequest, line).with_fix("change its approval in config.toml")
}

fn listed(tools: &[ToolDescription]) -> String {
    let mut table = Table::new(["TOOL", "DESCRIPTION"]);
    for tool in tools {
        let first = tool.description.lines().next().unwrap_or_default();
        table.row([tool.name.to_string(), first.to_owned()]);
    }
    table.to_string()
}

fn call(name: ToolName, input: &str, level: CallLevel, messages: Messages, host: Host<'_>) -> Result<u8, RunnerError> {
    let input = match input.strip_prefix('@') {
        Some(file) => read_text("the input", Path::new(file))?,
        None => input.to_owned(),
    };
    let runner = (host.server_runner)(ServerOptions { progress: progress(messages), tools: None });
    let recorded = runner.audit_call(&name, input.as_bytes())?;
    let began = Instant::now();
    let called = make_call(&name, input, level, messages, host);
    let mut unaudited = None;
    if let Some((entry, reason)) = recorded {
        let not_made = |error: &RunnerError| Err(ToolFailure::new(error.kind().as_str(), error.message()));
        let result = called.as_ref().map_or_else(not_made, |called| called.result.clone());
        let job = called.as_ref().ok().and_then(|called| called.facts["job"].as_str().map(str::to_owned));
        let failure = entry.end(&result, began.elapsed(), job);
        unaudited = reason.or_else(|| failure.inspect(|failure| messages.note(failure)));
    }
    let Called { result, call, facts } = called?;
    let output = match &result {
        Ok(output) => {
            serde_json::from_slice(output).map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?
        }
        Err(_) => Value::Null,
    };
    let error = result
        .as_ref()
        .err()
        .map(|failure| json!({ "kind": failure.kind, "message": failure.message, "stderr": failure.stderr }));
    let metadata = call.map(|ToolCall { input_bytes, output_bytes, wall, .. }| {
        let mut metadata = json!({
            "tool": name.as_str(),
            "duration_ms": wall.as_secs_f64() * 1e3,
            "input_bytes": input_bytes,
            "output_bytes": output_bytes,
        });
        // The tool has run.
        if let (Value::Object(metadata), Value::Object(facts)) = (&mut metadata, facts) {
            metadata.extend(facts);
        }
        if let Some(reason) = unaudited {
            metadata["unaudited"] = reason.into();
        }
        metadata
    });
    let document = json!({ "success": result.is_ok(), "output": output, "error": error, "metadata": metadata });
    let printed = answer::print_json(&document)?;
    Ok(match (printed, &result) {
        (0, Ok(_)) => 0,
        (0, Err(failure)) => status_of(failure),
        (printed, _) => printed,
    })
}

fn make_call(
    name: &ToolName,
    input: String,
    level: CallLevel,
    messages: Messages,
    host: Host<'_>,
) -> Result<Called, RunnerError> {
    let tools = connect(vec![name.clone()], level, messages, host)?.ok_or_else(denied)?;
    let cancel = CancelToken::new();
    Signals::handled().cancel(cancel.clone());
    tools.call(name, input.into_bytes(), &cancel).ok_or_else(denied)
}

/// Returns the exit status of a failed call: that of a tool that failed, or of a call that was not made.
fn status_of(failure: &ToolFailure) -> u8 {
    match failure.kind.as_str() {
        ToolFailure::DENIED | ToolFailure::INVALID_INPUT | ToolFailure::UNAVAILABLE => exit::FAILURE,
        // The only budget of a single call that it can exceed is its time.
        ToolFailure::BUDGET => exit::TIMEOUT,
        ToolFailure::INTERRUPTED => exit::CANCELLED,
        _ => 1,
    }
}
