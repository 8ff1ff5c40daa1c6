//! Runs jobs: the backend and its instances.

mod backend;
mod classify;
mod exec;
mod message;
mod missing;
mod turn;
mod way;

pub use backend::WasmBackend;
pub(crate) use message::{CWD, argv0};
pub use way::{Way, Ways};
