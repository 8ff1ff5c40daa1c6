//! Runs jobs: the backend and its instances.

mod backend;
mod classify;
mod connector;
mod exec;
mod execution;
mod message;
mod missing;
mod threads;

pub use backend::WasmBackend;
pub use connector::{Connector, Connectors};
pub(crate) use message::{CWD, argv0};
