//! Runs jobs: the backend and its instances.

mod backend;
mod classify;
mod connector;
mod exec;
mod execution;
mod missing;
mod session;
mod threads;

pub use backend::WasmBackend;
pub use connector::{Connector, Connectors};
pub(crate) use execution::OnceGuest;
