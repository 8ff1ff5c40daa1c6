//! The host process, as the command line sees it.

use std::time::Duration;

use codebox_core::{ResultKind, RunnerError};

/// State of a host process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostStatus {
    /// Process number.
    pub pid: u32,
    /// Number of runs accepted so far.
    pub runs: u64,
    /// Number of runs in progress.
    pub active: u32,
    /// Time since the process started.
    pub age: Duration,
    /// Time without a run after which the process ends; `None` if it does not end.
    pub idle_limit: Option<Duration>,
}

/// Control of the host process.
pub trait HostControl {
    /// Returns the state of the host process; `None` if there is none.
    ///
    /// # Errors
    /// Returns an error if the host process does not answer.
    fn status(&self) -> Result<Option<HostStatus>, RunnerError>;

    /// Starts a host process, and returns when it accepts runs. Returns false if there is one already.
    ///
    /// # Errors
    /// Returns an error if it cannot be started, or if the configuration disables it.
    fn start(&self) -> Result<bool, RunnerError>;

    /// Stops the host process when the runs in progress have ended. Returns false if there is none.
    ///
    /// # Errors
    /// Returns an error if the host process does not answer.
    fn stop(&self) -> Result<bool, RunnerError>;
}

/// The control on systems without a host process.
#[derive(Debug, Clone, Copy)]
pub struct NoHostProcess;

impl HostControl for NoHostProcess {
    fn status(&self) -> Result<Option<HostStatus>, RunnerError> {
        Ok(None)
    }

    fn start(&self) -> Result<bool, RunnerError> {
        let text = "the host process needs Linux; runs work without it";
        Err(RunnerError::new(ResultKind::InvalidRequest, text.to_owned()))
    }

    fn stop(&self) -> Result<bool, RunnerError> {
        Ok(false)
    }
}
