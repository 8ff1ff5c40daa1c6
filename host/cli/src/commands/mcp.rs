//! `codebox mcp`.

use std::sync::Arc;

use codebox_core::{ResultKind, RunnerError};
use codebox_mcp::Options;
use codebox_service::Request;

use crate::Host;
use crate::args::McpArgs;
use crate::commands::server_runner;
use crate::commands::tools::{CommandTools, Questions};
use crate::messages::Messages;

/// Serves one client over standard input and output.
pub(super) fn mcp(args: McpArgs, messages: Messages, host: Host<'_>) -> Result<u8, RunnerError> {
    let tools = CommandTools::connect(&args.tools, Questions::Refused, messages, host)?;
    let runner = server_runner(messages, host, tools.as_ref());
    let names = tools.as_ref().map(CommandTools::names).unwrap_or_default();
    let options = Options {
        request: Request { tools: names, ..args.grants.request(None) },
        roots: args.roots,
        all_sessions: args.all_sessions,
        boxes: args.boxes,
        concurrency: usize::from(args.max_calls),
    };
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let executor = executor.map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
    let served =
        executor.block_on(codebox_mcp::serve_stdio(runner, Arc::clone(host.sessions), Arc::clone(host.boxes), options));
    // Programs of calls that the client no longer waits for end with the process.
    executor.shutdown_background();
    served.map(|()| 0)
}
