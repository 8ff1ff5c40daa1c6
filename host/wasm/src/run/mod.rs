//! Runs jobs: the fast path as a backend.

mod backend;
mod budget;
mod changes;
mod classify;
mod exec;
mod message;
mod outputs;
mod scratch;
mod turn;

pub use backend::WasmBackend;
pub(crate) use message::{CWD, argv0};
