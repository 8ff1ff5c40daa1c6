//! Tools of the configuration that the operator grants, as tools of the server: the same that programs can call.

use std::sync::Arc;
use std::time::Instant;

use codebox_blocks::feedback;
use codebox_core::{Effects, ToolCalls as _, ToolName};
use codebox_runner::CellTools;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde_json::Value;
use tokio::runtime::Handle;

use crate::output::invalid;
use crate::server::{CallError, Server};

/// Returns the granted tools.
fn granted(server: &Server) -> Option<CellTools> {
    server.runner.tools_of_cell(&server.request().tools, Handle::current())
}

/// Returns the granted tools for the list of the server.
pub(crate) fn list(server: &Server) -> Vec<Tool> {
    let described = granted(server).map(|tools| tools.run.list()).unwrap_or_default();
    let tools = described.into_iter().map(|tool| {
        let input = match tool.input {
            Value::Object(schema) => schema,
            _ => JsonObject::new(),
        };
        // Their programs have grants of their own.
        let annotations = ToolAnnotations::new().read_only(false).destructive(true).open_world(true);
        Tool::new(tool.name.to_string(), tool.description, Arc::new(input)).with_annotations(annotations)
    });
    tools.collect()
}

/// Calls a granted tool. The result is its output as JSON text, and also in structured form if it is an object.
pub(crate) async fn call(server: &Server, name: &str, arguments: JsonObject) -> Result<CallToolResult, CallError> {
    let tools = granted(server).ok_or_else(|| invalid("there are no tools"))?;
    let input = serde_json::to_vec(&arguments).map_err(|error| invalid(error.to_string()))?;
    let tool = ToolName::new(name).map_err(|error| invalid(error.to_string()))?;
    let recorded = server.runner.audit_call(&tool, &input).map_err(|error| invalid(error.message()))?;
    let began = Instant::now();
    let result = tools.run.call(name, input, Effects::None).await;
    if let Some((entry, _)) = recorded {
        // The runner has noted that the call is not recorded.
        let _ = entry.end(&result, began.elapsed(), None);
    }
    let output = result.map_err(|failure| {
        // The message has the end of standard error.
        let text = feedback::plain(&format!("{}: {}", failure.kind, failure.message));
        Box::new(CallToolResult::error(vec![ContentBlock::text(text)]))
    })?;
    let text = String::from_utf8_lossy(&output).into_owned();
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = serde_json::from_slice(&output).ok().filter(Value::is_object);
    Ok(result)
}
