//! The part of `procfs` that `uv-platform` names to tell two kinds of 32-bit ARM apart.

use std::collections::HashMap;
use std::fmt;

/// Contents of a file that describes the system as it is.
pub trait Current: Sized {
    /// Always fails.
    fn current() -> Result<Self, NotRead> {
        Err(NotRead)
    }
}

/// Description of the processors.
pub struct CpuInfo {
    /// Properties that all processors have in common.
    pub fields: HashMap<String, String>,
}

impl Current for CpuInfo {}

/// The error of every call.
#[derive(Debug)]
pub struct NotRead;

impl fmt::Display for NotRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the processor is not described")
    }
}

impl std::error::Error for NotRead {}
