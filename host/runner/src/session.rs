//! Sessions: cells that share one interpreter.

use std::sync::Arc;

use codebox_core::{CodeScope, ExecIo, Isolation, LimitOverrides, ResultKind, RunReport, RunnerError, Stdin};
use codebox_service::{Preference, Program, Request};
use tokio::sync::Mutex;
use tracing::Instrument as _;
use tracing::field::Empty;
use tracing::info_span;

use crate::open::OpenGuest;
use crate::pipeline::{PlannedJob, cancelled_cell, unless_cancelled};
use crate::runner::Runner;
use crate::spans;

/// Session of one language: cells run one after the other in the same interpreter and share its state, as in a notebook.
///
/// The interpreter starts with the first cell, from the memory image that fits the imports of that cell. The value of the last
/// expression of a cell is in the report, with the objects that it displayed. Python and JavaScript allow `await` at the top
/// level.
///
/// - An exception ends its cell alone; the state is kept.
/// - A limit that is reached, a cancellation and a trap end the interpreter. The report then says that the state is not
///   [kept](RunReport::is_kept), and the next cell starts with a new one.
/// - The limits on time and output apply to each cell. Those on memory, disk, files and network apply to the session.
///
/// Cells of concurrent calls run in the order of the calls. Sessions run in WebAssembly.
pub struct Session {
    runner: Arc<Runner>,
    request: Request,
    guest: Mutex<Option<OpenGuest>>,
}

/// One text to run in a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Text to run.
    pub text: String,
    /// Limits of this cell that differ from those of the session. Only those on time and output can.
    pub limits: LimitOverrides,
    /// Standard input of the cell.
    pub stdin: Stdin,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), limits: LimitOverrides::default(), stdin: Stdin::Empty }
    }
}

impl Runner {
    /// Creates a session with the language, grants, limits and packages of a request. Its program is ignored. The
    /// interpreter starts with the first cell.
    ///
    /// # Errors
    /// Returns an error if the request is not admitted, or if it requires something that sessions do not have: another
    /// isolation than WebAssembly, input files, a directory for output files or arguments.
    pub async fn session<R>(self: &Arc<Self>, request: R) -> Result<Session, RunnerError>
    where
        R: TryInto<Request>,
        RunnerError: From<R::Error>,
    {
        let mut request = request.try_into()?;
        let refused = |what: &str| {
            let line = format!("cannot create a session: {what}");
            RunnerError::new(ResultKind::InvalidRequest, line).with_fix("remove it, or run a program instead")
        };
        if !request.isolation.acceptable().contains(Isolation::Wasm) {
            return Err(refused("sessions run in WebAssembly, and the request accepts only another isolation"));
        }
        if request.out.is_some() {
            return Err(refused("a session has no directory for output files"));
        }
        if !request.files.is_empty() || !request.args.is_empty() {
            return Err(refused("a session has no input files and no arguments"));
        }
        let Some(language) = &request.language else {
            return Err(refused("the request names no language"));
        };
        request.isolation = Preference::Only(Isolation::Wasm);
        request.program = Program::Inline(String::new());
        request.results = true;
        tracing::debug!(%language, "create a session");
        self.admit_stage(request.clone()).await?;
        Ok(Session { runner: Arc::clone(self), request, guest: Mutex::new(None) })
    }
}

impl Session {
    /// Returns the request of the session.
    #[must_use]
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Runs a cell. Requires a tokio runtime with time enabled.
    ///
    /// Dropping the future ends the interpreter of the session.
    ///
    /// # Errors
    /// Returns an error if the cell is not admitted, if the interpreter cannot be started, or if the outcome of the cell is
    /// unknown. A failure of the cell itself is part of the report.
    pub async fn exec(&self, cell: impl Into<Cell>) -> Result<RunReport, RunnerError> {
        self.exec_with(cell, &mut ExecIo::none()).await
    }

    /// Runs a cell with live input, output and cancellation. Requires a tokio runtime with time enabled.
    ///
    /// # Errors
    /// As for [`exec`](Self::exec).
    pub async fn exec_with(&self, cell: impl Into<Cell>, io: &mut ExecIo) -> Result<RunReport, RunnerError> {
        let mut guest = self.guest.lock().await;
        let span = info_span!("cell", is_first = guest.is_none(), outcome = Empty);
        let executed = self.exec_in(&mut guest, cell.into(), io).instrument(span.clone());
        spans::stage(span.clone(), executed).await
    }

    async fn exec_in(
        &self,
        guest: &mut Option<OpenGuest>,
        cell: Cell,
        io: &mut ExecIo,
    ) -> Result<RunReport, RunnerError> {
        let request = self.request_of(cell)?;
        // An interrupted cell leaves no guest behind, and neither does an error.
        let (mut open, job) = match guest.take() {
            Some(open) => (open, self.runner.admit_stage(request).await?),
            None => {
                let admitted = self.runner.admit_for_analysis(request).await?;
                let job = Arc::clone(&admitted);
                match unless_cancelled(&io.cancel, Box::pin(self.open(admitted))).await? {
                    Some(open) => (open, job),
                    None => return Ok(cancelled_cell(job.job().limits)),
                }
            }
        };
        let report = open.run(job.job(), io).await?;
        match report.is_kept() {
            true => *guest = Some(open),
            // The outcome of the cell is known; a failure to close the guest does not change the report.
            false => {
                let _ = open.close().await;
            }
        }
        Ok(report)
    }

    /// Returns the request of a cell: that of the session, with the cell's own limits.
    fn request_of(&self, Cell { text, limits, stdin }: Cell) -> Result<Request, RunnerError> {
        let LimitOverrides { wall, cpu, output, .. } = limits;
        if limits != (LimitOverrides { wall, cpu, output, ..LimitOverrides::default() }) {
            let line = "a cell can set its limits on wall time, processor time and output only";
            let fix = "set the other limits when the session is created";
            return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix));
        }
        let own = self.request.limits;
        let limits =
            LimitOverrides { wall: wall.or(own.wall), cpu: cpu.or(own.cpu), output: output.or(own.output), ..own };
        Ok(Request { program: Program::Inline(text), limits, stdin, ..self.request.clone() })
    }

    /// Opens the guest for the first cell.
    async fn open(&self, admitted: Arc<codebox_service::Admitted>) -> Result<OpenGuest, RunnerError> {
        let runner = &self.runner;
        let (admitted, packages) = runner.with_packages(admitted).await?;
        packages.notes.iter().for_each(|note| runner.parts.progress.detail(note));
        let job = runner.analyze_job(admitted).await?;
        let (plan, backend) = runner.select(&job).await?;
        // A later cell may import anything, and the state of the session does not survive a lack of code.
        let (code, compiled) = (CodeScope::Image, CodeScope::All);
        let planned = PlannedJob { job: &job, plan: Arc::new(plan), backend, code, compiled, is_session: true };
        let never = codebox_core::CancelToken::new();
        let prepared = runner.prepare(&planned, &never).await?;
        prepared
            .map(|(guest, _)| guest)
            .ok_or_else(|| RunnerError::new(ResultKind::InternalError, "the preparation of the session was cancelled"))
    }
}
