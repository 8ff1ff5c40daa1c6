//! Participation of a front end in a run.

use std::time::Duration;

use codebox_core::{CancelToken, ExecIo, Handover, Isolation, Outcome, RunReport, RunnerError};
use codebox_service::Admitted;
use codebox_streams::DRAIN_TIMEOUT;

/// Steps of a front end within a run. The default methods are those of the library, which only waits for the report.
pub trait FrontEnd: Send {
    /// Returns the run in another process that this run continues.
    fn resumes(&self) -> Option<&Handover> {
        None
    }

    /// Called before a running container is looked up, or a dev container is brought up, which can take minutes. The process does not confine
    /// itself then.
    fn finds_container(&mut self, _io: &mut ExecIo) {}

    /// Called once the request is admitted, before its packages are resolved.
    ///
    /// # Errors
    /// Returns an error if the front end refuses the job, which then does not run.
    fn admitted(&mut self, _admitted: &Admitted) -> Result<(), RunnerError> {
        Ok(())
    }

    /// Called once the backend and the image are chosen, before the job is recorded. `is_prepared` returns true if all files of the
    /// runtime with which the job starts are there.
    ///
    /// # Errors
    /// Returns an error if the front end refuses the job, which then does not run.
    fn planned(
        &mut self,
        _admitted: &Admitted,
        _is_prepared: &dyn Fn() -> Result<bool, RunnerError>,
    ) -> Result<(), RunnerError> {
        Ok(())
    }

    /// Prepares a second run of the job, in case the first one fails because its backend lacks a feature or code. Called
    /// before the guest is opened, and only if a container engine may be available or code is not compiled.
    fn standby(&mut self) -> Standby {
        Standby::InProcess
    }

    /// Called after the guest was opened, and before the process confines itself.
    fn opened(&mut self) {}

    /// Called before the program starts, after the process has confined itself.
    fn starting(&mut self, _io: &mut ExecIo) {}

    /// Returns how to rerun the job with this isolation, for the report.
    fn rerun_hint(&self, _admitted: &Admitted, isolation: Isolation) -> String {
        format!("request.isolation = Preference::Only(Isolation::{isolation:?})")
    }

    /// Returns the maximum time to wait for a reader of the held output; `None` waits as long as it takes.
    fn release_timeout(&self, report: &RunReport) -> Option<Duration> {
        match report.outcome {
            Outcome::Exited(_) => None,
            // A run that was stopped ends on time even if its output has no reader.
            _ => Some(DRAIN_TIMEOUT),
        }
    }

    /// Returns the exit status to record in the journal.
    fn exit_status(&self, report: &RunReport) -> u8 {
        report.exit_status()
    }
}

/// The library as a front end.
pub(crate) struct Library;

impl FrontEnd for Library {}

/// Place of a second run.
pub enum Standby {
    /// This process.
    InProcess,
    /// A process that was started for it, because this one confines itself.
    Process(Box<dyn StandbyProcess>),
    /// No second run is possible.
    Unavailable,
}

/// Process that waits to run a job again.
pub trait StandbyProcess: Send {
    /// Hands the job over, and returns the exit status of the process; `None` if the process is gone and the outcome is
    /// unknown. Calls `taken` once the job runs there. Blocks until the process ends or is cancelled.
    ///
    /// # Errors
    /// Returns the reason if the job does not run there.
    fn take_over(
        self: Box<Self>,
        handover: &Handover,
        cancel: &CancelToken,
        taken: &mut dyn FnMut(),
    ) -> Result<Option<u8>, String>;
}

/// End of a run.
#[derive(Debug)]
pub enum RunEnd {
    /// The run ended in this process.
    Report(Box<RunReport>),
    /// Another process ran the job again, printed its result, and ended with this status.
    TakenOver(u8),
}
