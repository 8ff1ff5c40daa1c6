//! The host's side: a pool of analyzer processes that are started, used and replaced when they fail.

mod analyzer;
mod cache;
mod error;
mod pool;
#[cfg(unix)]
mod process;
#[cfg(not(unix))]
#[path = "client/process_none.rs"]
mod process;
mod program;

pub use analyzer::{Analyzer, Budget, ResourceUsage, StripResponse};
pub use error::AnalysisError;
