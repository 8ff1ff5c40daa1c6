//! The command line's steps within a run: signals, the standby process, and the takeover from another process.

use std::sync::Arc;
use std::time::Duration;

use codebox_core::{CancelToken, CodeScope, ExecIo, Handover, HostPath, Isolation, RunReport, RunnerError};
use codebox_runner::{FrontEnd, Standby};
use codebox_service::Admitted;
use codebox_streams::DivergenceFlag;

use crate::RunHost;
use crate::interrupt::Signals;
use crate::rerun_command::{ImageOption, rerun_command};
#[cfg(unix)]
use crate::standby::StoppableWatch;
use crate::standby::{self, StandbyConnection};
use crate::streams::OutputState;
use crate::trace::RunTrace;

/// Maximum time to write the held output of a run to a standard error that is not read.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(500);

/// The command line as a front end of one run.
pub(crate) struct CommandLine<'c> {
    host: RunHost<'c>,
    /// Number of the last words of the command line that are the program and its arguments.
    program_words: usize,
    trace: RunTrace,
    output: OutputState,
    signals: Option<Signals>,
    /// True if signals cancel the run already.
    has_handlers: bool,
    takeover: Option<&'c mut Takeover>,
    differs: Option<DivergenceFlag>,
    out: Option<HostPath>,
}

impl<'c> CommandLine<'c> {
    pub(crate) fn new(
        host: RunHost<'c>,
        program_words: usize,
        trace: RunTrace,
        output: OutputState,
        takeover: Option<&'c mut Takeover>,
    ) -> Self {
        Self {
            host,
            program_words,
            trace,
            output,
            signals: None,
            has_handlers: false,
            takeover,
            differs: None,
            out: None,
        }
    }

    /// Returns the directory that files are copied to.
    pub(crate) fn out(&self) -> Option<&HostPath> {
        self.out.as_ref()
    }

    /// Returns true if the program printed something else than the run that this one continues.
    pub(crate) fn differs(&self) -> bool {
        self.differs.as_ref().is_some_and(DivergenceFlag::is_set)
    }
}

impl FrontEnd for CommandLine<'_> {
    fn resumes(&self) -> Option<&Handover> {
        self.takeover.as_ref().map(|takeover| &takeover.handover)
    }

    fn finds_container(&mut self, io: &mut ExecIo) {
        Signals::handled().cancel(io.cancel.clone());
        self.has_handlers = true;
    }

    fn admitted(&mut self, admitted: &Admitted) -> Result<(), RunnerError> {
        if let Some(check) = self.host.check {
            check.admitted(admitted)?;
        }
        self.out = admitted.out().cloned();
        self.trace.check(admitted)
    }

    fn planned(
        &mut self,
        admitted: &Admitted,
        is_prepared: &dyn Fn() -> Result<bool, RunnerError>,
    ) -> Result<(), RunnerError> {
        self.host.check.map_or(Ok(()), |check| check.planned(admitted, is_prepared))
    }

    /// Starts a process that can run the command again. If it cannot be started, the run continues without it, and the
    /// report names the features that were missing.
    fn standby(&mut self) -> Standby {
        let events = &self.trace.rerun_events;
        let start = |launcher| standby::Standby::start(launcher, self.host.args, Arc::clone(events)).ok();
        let started = (self.host.standby_launcher)().and_then(start);
        started.map_or(Standby::Unavailable, |process| Standby::Process(Box::new(process)))
    }

    fn opened(&mut self) {
        if let Some(takeover) = &mut self.takeover {
            takeover.stop_watching();
        }
        // Until the guest starts, the signals keep their default action. The next start removes the leftovers of a
        // killed process.
        self.signals = (!self.has_handlers).then(Signals::handled);
    }

    fn starting(&mut self, io: &mut ExecIo) {
        if let Some(takeover) = &self.takeover {
            takeover.watch_run(io.cancel.clone());
        }
        if let Some(signals) = self.signals.take() {
            signals.cancel(io.cancel.clone());
        }
        self.differs = self.takeover.as_mut().map(|takeover| takeover.start(io));
    }

    fn rerun_hint(&self, admitted: &Admitted, isolation: Isolation) -> String {
        let image = if admitted.container_image().is_some() { ImageOption::Keep } else { ImageOption::Drop };
        rerun_command(self.host.args, self.program_words, image, isolation)
    }

    fn release_timeout(&self, _report: &RunReport) -> Option<Duration> {
        Some(RELEASE_TIMEOUT)
    }

    fn exit_status(&self, report: &RunReport) -> u8 {
        self.output.failure_status().unwrap_or_else(|| report.exit_status())
    }
}

/// Handover from another run, in a process that stood by.
pub(crate) struct Takeover {
    connection: StandbyConnection,
    handover: Handover,
    /// True once the job runs in this process.
    has_started: bool,
    /// Reason that the job does not run in this process.
    refusal: Option<String>,
    /// Watch of the first process until this process confines itself.
    #[cfg(unix)]
    watch: Option<StoppableWatch>,
}

impl Takeover {
    /// Waits for the handover; `None` if the first run did not need this process.
    pub(crate) fn wait(mut connection: StandbyConnection) -> Option<Self> {
        let handover = connection.wait()?;
        Some(Self {
            connection,
            handover,
            has_started: false,
            refusal: None,
            #[cfg(unix)]
            watch: None,
        })
    }

    /// Returns the text of the program, if it came from standard input.
    pub(crate) fn program(&self) -> Option<String> {
        self.handover.program.clone()
    }

    /// Returns true if the job runs in a container, and false if it runs in WebAssembly again.
    pub(crate) fn is_for_container(&self) -> bool {
        self.handover.code == CodeScope::Image
    }

    /// Cancels this run when the first one is cancelled or its process is killed, until the program starts.
    pub(crate) fn watch_preparation(&mut self, cancel: CancelToken) {
        // If no thread can be started for this, the run continues without it.
        #[cfg(unix)]
        {
            self.watch = self.connection.watch_until_stopped(cancel).ok();
        }
        #[cfg(not(unix))]
        drop(cancel);
    }

    fn stop_watching(&mut self) {
        #[cfg(unix)]
        self.watch.take().into_iter().for_each(StoppableWatch::stop);
    }

    /// Cancels this run when the first one is cancelled or its process is killed.
    fn watch_run(&self, cancel: CancelToken) {
        let _ = self.connection.watch(cancel);
    }

    /// Leaves the report to the first process, for this reason, and returns true, unless the job has run here.
    pub(crate) fn refuse(&mut self, why: &str) -> bool {
        if !self.has_started {
            self.refusal = Some(why.to_owned());
        }
        !self.has_started
    }

    /// Reports the exit status or the refusal to the first process, which writes the trace with these events. Call it
    /// last.
    pub(crate) fn end(mut self, status: u8, events: &[u8]) {
        match self.refusal {
            Some(why) => self.connection.report_refusal(&why),
            None if self.has_started => self.connection.report_exit(status, events),
            // The closed pipe reports that the command failed before the run.
            None => {}
        }
    }

    fn start(&mut self, io: &mut ExecIo) -> DivergenceFlag {
        self.has_started = true;
        self.connection.report_started();
        let Handover { stdout, stdin, .. } = &mut self.handover;
        codebox_streams::resume_streams(io, std::mem::take(stdout), std::mem::take(stdin))
    }
}
