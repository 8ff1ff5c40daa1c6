//! `codebox mcp`.

use std::sync::Arc;

use codebox_core::{ResultKind, RunnerError};
use codebox_mcp::Options;
use codebox_runner::{Runner, SessionControl};

use crate::args::McpArgs;

/// Serves one client over standard input and output.
pub(super) fn mcp(
    args: McpArgs,
    runner: Arc<Runner>,
    sessions: Arc<dyn SessionControl + Send + Sync>,
) -> Result<u8, RunnerError> {
    let options = Options {
        request: args.grants.request(None),
        roots: args.roots,
        all_sessions: args.all_sessions,
        concurrency: usize::from(args.max_calls),
    };
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let executor = executor.map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
    let served = executor.block_on(codebox_mcp::serve_stdio(runner, sessions, options));
    // Programs of calls that the client no longer waits for end with the process.
    executor.shutdown_background();
    served.map(|()| 0)
}
