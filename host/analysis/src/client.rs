//! The side of the host: analyzers started, asked, and given up when they fail.

mod analyzer;
mod cache;
mod error;
mod pool;
#[cfg(unix)]
mod process;
#[cfg(not(unix))]
#[path = "client/process_none.rs"]
mod process;

pub use analyzer::{Analyzer, Budget, Stripped, Used};
pub use error::AnalysisError;
