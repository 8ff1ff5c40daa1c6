//! Analyzer processes on platforms without an analyzer program.

use std::io;
use std::time::Instant;

use super::program::Program;
use crate::protocol::Report;

/// An analyzer process, which cannot exist on this platform.
pub(super) struct Process(std::convert::Infallible);

/// The reason why an exchange with an analyzer failed.
#[expect(dead_code, reason = "no exchange takes place")]
pub(super) enum ExchangeError {
    /// The analyzer did not answer in time.
    Timeout,
    /// The analyzer ended or violated the protocol.
    Failed(String),
}

impl Process {
    pub(super) fn start(_program: &Program) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this build has no analyzer for this system"))
    }

    pub(super) fn exchange(&mut self, _: &[u8], _: usize, _: Instant) -> Result<(Report, Vec<u8>), ExchangeError> {
        match self.0 {}
    }

    pub(super) fn is_reusable(&self) -> bool {
        match self.0 {}
    }
}
