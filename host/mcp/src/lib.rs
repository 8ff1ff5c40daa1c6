//! The Model Context Protocol: a server with programs, code blocks and sessions as tools of an agent, over standard input and output, and a
//! client that makes the tools of other servers those of programs.
//!
//! The operator grants directories, hosts, variables and limits when the server is started; a call cannot add any. The roots of the client
//! are granted only if the operator allows it. Clients of the Model Context Protocol with `initialize`, and those of 2026-07-28 without it,
//! are served.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod arguments;
mod boxes;
mod client;
mod granted;
mod output;
mod progress;
mod roots;
mod runs;
mod server;
mod sessions;

use std::sync::Arc;

use codebox_core::{Language, ResultKind, RunnerError};
use codebox_runner::{BoxControl, Runner, SessionControl};
use codebox_service::Request;
use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use rmcp::transport::IntoTransport;
use rmcp::transport::async_rw::AsyncRwTransport;

pub use client::{ServerCommand, ServerLog, ServerTools, tools_of_server};
pub use server::Options;

/// Maximum size of a message of the client in bytes. A larger one is dropped without an answer, because its number is not known.
const MAX_MESSAGE: usize = 256 << 20;

/// Serves one client over standard input and output, until the input ends. Requires a tokio runtime with several threads, time and I/O
/// enabled.
///
/// # Errors
/// Returns an error if the client does not follow the protocol.
pub async fn serve_stdio(
    runner: Arc<Runner>,
    sessions: Arc<dyn SessionControl + Send + Sync>,
    boxes: Arc<dyn BoxControl + Send + Sync>,
    options: Options,
) -> Result<(), RunnerError> {
    let (input, output) = rmcp::transport::stdio();
    let transport = AsyncRwTransport::new_server(input, output).with_max_line_length(MAX_MESSAGE);
    serve(server::Server::new(runner, sessions, boxes, options), transport).await
}

async fn serve<E, A>(
    server: server::Server,
    transport: impl IntoTransport<rmcp::RoleServer, E, A>,
) -> Result<(), RunnerError>
where
    E: std::error::Error + Send + Sync + 'static,
{
    // An operator's mistake is reported at once, and not by the first call.
    let request = Request { language: Some(Language::Python), ..server.request() };
    server.runner.session(request).await?;
    let failed =
        |error: String| RunnerError::new(ResultKind::InvalidRequest, format!("cannot serve the client: {error}"));
    let service = match server.serve(transport).await {
        Ok(service) => service,
        // The client has gone without a message.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(failed(error.to_string())),
    };
    service.waiting().await.map_err(|error| failed(error.to_string()))?;
    Ok(())
}
