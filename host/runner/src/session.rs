//! Sessions: cells that share one interpreter.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use codebox_core::{
    Adapter, CancelToken, CodeScope, Cpus, ExecIo, Isolation, Job, Preparation, ResultKind, RunReport, RunnerError,
    SessionSpec,
};
use codebox_files::InstanceScratch;
use codebox_service::{Accepted, Admitted, CellEntry, Preference, Program, Request};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tracing::Instrument as _;
use tracing::field::Empty;
use tracing::info_span;

use crate::attach::refuse_settings_of_runs;
use crate::cancelled::{cancelled_cell, unless_cancelled};
use crate::offload::block_on;
use crate::open::OpenGuest;
use crate::pipeline::PlannedJob;
use crate::runner::Runner;
use crate::spans;

mod cell;
mod cell_checks;
mod checkpoint;
mod export;
mod file;
mod page_files;
mod process;

pub use cell::{Cell, Course};
use cell_checks::{check_cpu_limit, request_of};
pub use checkpoint::Checkpoint;
pub use file::SessionFileHead;
use page_files::PageFiles;
pub use process::{CellIo, CellTools, NoSessions, Resumption, SessionClient, SessionControl, SuspendedCell};

/// Directory of a session's checkpoints, below its private directory.
const CHECKPOINTS: &str = "checkpoints";

/// Session of one language: cells run one after the other in the same interpreter and share its state, as in a notebook.
///
/// The interpreter starts with the first cell, from the memory image that fits the imports of that cell. The value of the last
/// expression of a cell is in the report, with the objects that it displayed. `await` is allowed at the top level.
///
/// - An exception ends its cell alone; the state is kept.
/// - A limit that is reached, a cancellation and a trap end the interpreter. The report then says that the state is not
///   [kept](RunReport::is_kept). The next cell starts with the state of the last [`checkpoint`](Self::checkpoint), which its
///   report names, or without one with a new interpreter.
/// - The limits on time and output apply to each cell. Those on memory, disk, files and network apply to the session.
///
/// Cells of concurrent calls run in the order of the calls. Sessions support Python, JavaScript and TypeScript. They run in WebAssembly, or, for
/// requests that accept containers alone, with an interpreter that is kept in a container. Those in containers cannot be saved or forked, and
/// keep their state if a cell is cancelled and ends by itself.
pub struct Session {
    runner: Arc<Runner>,
    request: Request,
    state: Mutex<State>,
    /// Name in the audit log.
    name: Option<String>,
}

/// State of a session between two cells.
#[derive(Default)]
struct State {
    live: Option<Live>,
    /// Checkpoint with which the next interpreter starts.
    last: Option<Checkpoint>,
    /// State of the interpreter, if no cell has run since it was saved.
    current: Option<Checkpoint>,
    /// True if a cell has ended an interpreter, and no other has started since.
    is_lost: bool,
    /// True if a cell has run in the interpreter, or had run before it was parked.
    has_run: bool,
}

/// Start of an interpreter.
enum Start<'s> {
    New,
    /// With the state of a checkpoint.
    Restored(&'s Checkpoint),
    /// With the state in which the same session was parked.
    Resumed(&'s Checkpoint),
}

impl State {
    fn start(&self) -> Start<'_> {
        match &self.last {
            None => Start::New,
            Some(last) if self.is_lost || !self.has_run => Start::Restored(last),
            Some(last) => Start::Resumed(last),
        }
    }
}

/// An interpreter, and the directory of its checkpoints.
struct Live {
    guest: OpenGuest,
    dir: Arc<SessionDir>,
    /// Files of pages of the state that was saved or restored last.
    page_files: Option<PageFiles>,
}

impl Live {
    /// Ends the interpreter. What it did is known; a failure does not change that.
    async fn close(self) {
        let _ = self.guest.close().await;
    }
}

/// Private directory of an interpreter, removed when it and all of its checkpoints are dropped.
struct SessionDir {
    checkpoints: Option<PathBuf>,
    /// The directory itself, which workers cannot access.
    place: Option<PathBuf>,
    _scratch: Option<InstanceScratch>,
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
        let request = session_request(request.try_into()?)?;
        self.admit_stage(request.clone()).await?;
        Ok(self.new_session(request))
    }

    /// Creates a session with the state of a checkpoint, and with the grants and limits of a request. The grants of the session
    /// that was saved are not carried over.
    ///
    /// # Errors
    /// As for [`session`](Self::session); also if the checkpoint was made with another runtime, or is malformed.
    pub async fn restore<R>(self: &Arc<Self>, request: R, checkpoint: &Checkpoint) -> Result<Session, RunnerError>
    where
        R: TryInto<Request>,
        RunnerError: From<R::Error>,
    {
        let session = self.new_session(session_request(request.try_into()?)?);
        session.restore(checkpoint).await?;
        Ok(session)
    }

    /// Admits the request of a session that another process keeps, and prepares the runtime of its language, blocking the calling
    /// thread. Returns the job with the language, grants, limits and packages of the session.
    ///
    /// # Errors
    /// As for [`session`](Self::session); also if the runtime cannot be prepared.
    pub fn prepare_session(&self, request: Request) -> Result<Job, RunnerError> {
        let request = session_request(request)?;
        block_on(async {
            let admitted = self.admit_stage(request).await?;
            if admitted.job().isolations.contains(Isolation::Wasm) {
                self.ensure_runtime(&admitted.job().language, Preparation::Complete).await?;
            }
            Ok(admitted.job().clone())
        })?
    }

    /// Creates a session whose next cell starts with the state of a checkpoint, or without state if an earlier interpreter was
    /// lost. `has_run` is true if a cell has run since the state was restored or forked, and its random numbers go on. The grants
    /// are admitted with that cell.
    ///
    /// # Errors
    /// As for [`session`](Self::session), without the errors of admission.
    pub fn resume<R>(
        self: &Arc<Self>,
        request: R,
        last: Option<Checkpoint>,
        is_lost: bool,
        has_run: bool,
    ) -> Result<Session, RunnerError>
    where
        R: TryInto<Request>,
        RunnerError: From<R::Error>,
    {
        let mut session = self.new_session(session_request(request.try_into()?)?);
        *session.state.get_mut() = State { live: None, last, current: None, is_lost, has_run };
        Ok(session)
    }

    fn new_session(self: &Arc<Self>, request: Request) -> Session {
        Session { runner: Arc::clone(self), request, state: Mutex::default(), name: None }
    }

    /// Creates the directory of an interpreter.
    fn session_dir(&self) -> Result<Arc<SessionDir>, RunnerError> {
        let Some(dirs) = &self.parts.session_dirs else {
            return Ok(Arc::new(SessionDir { checkpoints: None, place: None, _scratch: None }));
        };
        let failed = |error| RunnerError::of(ResultKind::InternalError, &error);
        let mut scratch = dirs.get()?.instance().map_err(|error| failed(std::io::Error::other(error)))?;
        scratch.add(CHECKPOINTS).map_err(failed)?;
        let (checkpoints, place) = (Some(scratch.path(CHECKPOINTS)), Some(scratch.place().to_owned()));
        Ok(Arc::new(SessionDir { checkpoints, place, _scratch: Some(scratch) }))
    }
}

/// Checks a request for a session.
fn session_request(request: Request) -> Result<Request, RunnerError> {
    refuse_settings_of_runs(&request, "a session")?;
    let refused = |what: &str, fix: &str| {
        let line = format!("cannot create a session: {what}");
        Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix))
    };
    let isolations = request.isolation.acceptable();
    let isolation =
        [Isolation::Wasm, Isolation::Container, Isolation::Vm].into_iter().find(|one| isolations.contains(*one));
    let Some(isolation) = isolation else {
        return refused("the request accepts no isolation", "allow wasm, container or vm");
    };
    if request.out.is_some() {
        return refused("a session has no directory for output files", "grant a directory with write access");
    }
    if !request.files.is_empty() || !request.args.is_empty() || !request.returns.is_empty() {
        return refused("a session has no files and no arguments", "pass the files with a cell");
    }
    match &request.language {
        None => return refused("the request names no language", "name one"),
        Some(language) if !matches!(language.adapter(), Some(Adapter::Python | Adapter::Node)) => {
            return refused(&format!("{language} has no sessions"), "use Python, JavaScript or TypeScript");
        }
        Some(_) => {}
    }
    check_cpu_limit(request.limits, Preference::Only(isolation))?;
    if isolation == Isolation::Wasm && request.cpus.is_some_and(Cpus::is_part_of_one) {
        return refused("less than one processor needs a container", "use --isolation container");
    }
    Ok(Request {
        isolation: Preference::Only(isolation),
        program: Program::Inline(String::new()),
        results: true,
        ..request
    })
}

impl Session {
    /// Returns the request of the session, without a program.
    #[must_use]
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Returns true if the cells run in a container.
    #[must_use]
    pub fn is_in_container(&self) -> bool {
        !self.request.isolation.acceptable().contains(Isolation::Wasm)
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
        let mut state = tokio::select! {
            biased;
            () = io.cancel.cancelled() => {
                // The state stays as the cells before leave it.
                let request = request_of(cell.into(), &self.request)?;
                return Ok(cancelled_cell(self.runner.admit_stage(request).await?.job().limits, true));
            }
            state = self.state.lock() => state,
        };
        let span = info_span!("cell", is_first = state.live.is_none(), outcome = Empty);
        let executed = self.exec_in(&mut state, cell.into(), None, io).instrument(span.clone());
        spans::stage(span.clone(), executed).await
    }

    /// Runs a cell in a new interpreter, with the state that was saved last: with the same course and the same
    /// results of tools, it does the same again, as far as it depends neither on time nor on files and hosts outside. An
    /// interpreter of the session is released, so its state should be [saved](Self::park_in).
    ///
    /// # Errors
    /// As for [`exec`](Self::exec).
    pub async fn exec_repeatable(&self, cell: Cell, course: Course, io: &mut ExecIo) -> Result<RunReport, RunnerError> {
        let mut state = self.state.lock().await;
        if let Some(live) = state.live.take() {
            live.close().await;
        }
        let Course { seed, continues } = course;
        // A state whose random numbers go on is not lost.
        (state.is_lost, state.has_run, state.current) = (state.is_lost && !continues, continues, None);
        self.exec_in(&mut state, cell, Some(seed), io).await
    }

    /// Records a cell in the audit log, if the session has a name. Returns the reason as well if that fails.
    fn record_cell(&self, job: &Job, open: &Live) -> Result<(Option<CellEntry>, Option<String>), RunnerError> {
        let (Some(journal), Some(name)) = (self.runner.journal()?, &self.name) else { return Ok((None, None)) };
        let (entry, failure) =
            journal.accept_cell(name, Accepted { job, backend: open.guest.backend(), attachment: None, tool: None })?;
        Ok((Some(entry), self.runner.note_unaudited(failure.as_ref())))
    }

    async fn exec_in(
        &self,
        state: &mut State,
        cell: Cell,
        seed: Option<[u8; 32]>,
        io: &mut ExecIo,
    ) -> Result<RunReport, RunnerError> {
        let request = request_of(cell, &self.request)?;
        // A cell that is refused or cancelled before it starts leaves the state as it is.
        let admitted = match &state.live {
            Some(_) => self.runner.admit_stage(request).await?,
            None => self.runner.admit_first(request).await?,
        };
        let limits = admitted.job().limits;
        let job = Arc::clone(&admitted);
        if io.cancel.is_cancelled() {
            return Ok(cancelled_cell(limits, state.live.is_some() || !state.is_lost));
        }
        let was_lost = state.is_lost;
        let mut open = match state.live.take() {
            Some(open) => open,
            None => match unless_cancelled(&io.cancel, Box::pin(self.open(admitted, state.start(), seed))).await? {
                Some(open) => open,
                None => return Ok(cancelled_cell(limits, !state.is_lost)),
            },
        };
        let (entry, unaudited) = match self.record_cell(job.job(), &open) {
            Ok(recorded) => recorded,
            Err(error) => {
                state.live = Some(open);
                return Err(error);
            }
        };
        let id = entry.as_ref().map(|entry| entry.id().to_owned());
        (state.is_lost, state.current, state.has_run) = (true, None, true);
        let tools = self.runner.start_tools(job.job(), io);
        let mut ran = open.guest.run(job.job(), io).await.map_err(RunnerError::from);
        if let (Some(tools), Ok(report)) = (&tools, &mut ran) {
            tools.report(report);
        }
        if let Some(entry) = entry {
            let (kind, status, report) = match &ran {
                Ok(report) => (report.result_kind(), report.exit_status(), Some(report)),
                Err(error) => (error.kind(), error.exit_status(), None),
            };
            // The caller does not wait for it.
            drop(spawn_blocking(entry.end(kind, status, report)));
        }
        let mut report = ran?;
        (report.id, report.unaudited) = (id, unaudited);
        match report.is_kept() {
            true => (state.live, state.is_lost) = (Some(open), false),
            false => open.close().await,
        }
        let session = report.session.get_or_insert_default();
        if was_lost {
            session.was_lost = true;
            session.restored_from = state.last.as_ref().map(|last| last.name().to_owned());
        }
        Ok(report)
    }

    /// Opens a guest, with the state of a checkpoint if there is one. Otherwise its image fits the imports of the program.
    async fn open(
        &self,
        admitted: Arc<Admitted>,
        start: Start<'_>,
        seed: Option<[u8; 32]>,
    ) -> Result<Live, RunnerError> {
        let runner = &self.runner;
        let (admitted, packages) = runner.with_packages(admitted).await?;
        packages.notes.iter().for_each(|note| runner.parts.progress.detail(note));
        let job = runner.analyze_job(admitted).await?;
        let (plan, backend) = runner.select(&job).await?;
        let dir = runner.session_dir()?;
        let checkpoints = dir.checkpoints.clone();
        let (from, resumes) = match start {
            Start::New => (None, false),
            Start::Restored(from) => (Some(from), false),
            Start::Resumed(from) => (Some(from), true),
        };
        let restore = from.map(|checkpoint| checkpoint.dir().to_owned());
        let mut page_files = dir.place.clone().map(PageFiles::new);
        if let (Some(files), Some(from)) = (&mut page_files, &restore) {
            files.add_all(from);
        }
        let planned = PlannedJob {
            job: &job,
            plan: Arc::new(plan),
            backend,
            code: CodeScope::Image,
            // A later cell may import anything, and the state of the session does not survive a lack of code.
            compiled: CodeScope::All,
            session: Some(SessionSpec { checkpoints, restore, resumes, seed }),
            image: from.map(|checkpoint| checkpoint.image().to_owned()),
        };
        let prepared = runner.prepare(&planned, &CancelToken::new()).await?;
        let cancelled = || RunnerError::new(ResultKind::InternalError, "the preparation of the session was cancelled");
        prepared.map(|(guest, _)| Live { guest, dir, page_files }).ok_or_else(cancelled)
    }

    /// Saves the state of the session: the memory of its interpreter, and its private files. The session goes on, and starts
    /// with this state again if a cell ends its interpreter.
    ///
    /// `name` appears in the reports of cells before which the session was restored.
    ///
    /// # Errors
    /// Returns an error if no cell has run, if the interpreter has files or connections open, which the error names, or if the state
    /// cannot be written.
    pub async fn checkpoint(&self, name: impl Into<String>) -> Result<Checkpoint, RunnerError> {
        let mut state = self.state.lock().await;
        let checkpoint = self.save(&mut state, name.into()).await?.shared();
        state.last = Some(checkpoint.clone());
        Ok(checkpoint)
    }

    /// As [`checkpoint`](Self::checkpoint), in a new directory that is kept. Its parent must be on the file system of the private
    /// directory of the process.
    ///
    /// # Errors
    /// As for [`checkpoint`](Self::checkpoint); also if the directory exists.
    pub async fn checkpoint_in(&self, name: impl Into<String>, dir: &Path) -> Result<Checkpoint, RunnerError> {
        let mut state = self.state.lock().await;
        let checkpoint = self.save(&mut state, name.into()).await?.moved_to(dir)?;
        // The directory before is gone.
        state.current = state.live.is_some().then(|| checkpoint.clone());
        state.last = Some(checkpoint.clone());
        Ok(checkpoint)
    }

    async fn save(&self, state: &mut State, name: String) -> Result<Checkpoint, RunnerError> {
        let refused =
            |what: &str| RunnerError::new(ResultKind::InvalidRequest, format!("cannot save the session: {what}"));
        let Some(mut open) = state.live.take() else {
            return match &state.last {
                _ if state.is_lost => Err(refused("its interpreter has ended, and its state is lost")),
                // No cell has run since.
                Some(last) => Ok(last.renamed(name)),
                None => Err(refused("it has no state, because no cell has run in it").with_fix("run a cell first")),
            };
        };
        if let Some(current) = &state.current {
            state.live = Some(open);
            return Ok(current.renamed(name));
        }
        let Some(parent) = &open.dir.checkpoints else {
            state.live = Some(open);
            return Err(refused("this runner has no directory for checkpoints"));
        };
        let dir = parent.join(checkpoint::unique_name());
        // If the caller stops waiting, the interpreter ends.
        state.is_lost = true;
        let shared = open.page_files.as_ref().map_or(0, PageFiles::count);
        let saved = open.guest.checkpoint(&dir, shared).await.map_err(RunnerError::from);
        if let Err(error) = &saved
            && error.kind() == ResultKind::EngineLost
        {
            open.close().await;
            return Err(error.clone());
        }
        let (image, owner) = (open.guest.spec().image.clone().unwrap_or_default(), Arc::clone(&open.dir));
        let complete = |shared| match &mut open.page_files {
            Some(files) => {
                files.complete(&dir, shared).map_err(|error| refused(&format!("its files cannot be linked: {error}")))
            }
            None => Ok(()),
        };
        let saved = saved.and_then(complete);
        (state.live, state.is_lost) = (Some(open), false);
        // Its directory is removed if it is incomplete.
        let checkpoint = Checkpoint::new(name, dir, image, owner);
        saved?;
        state.current = Some(checkpoint.clone());
        Ok(checkpoint)
    }

    /// Returns to the state of a checkpoint, which may be that of another session. Files in granted directories stay as they are.
    ///
    /// # Errors
    /// Returns an error if the checkpoint was made with another runtime or is malformed, or if the interpreter cannot be
    /// started. The session then keeps its state.
    pub async fn restore(&self, checkpoint: &Checkpoint) -> Result<(), RunnerError> {
        let mut state = self.state.lock().await;
        let admitted = self.runner.admit_for_analysis(self.request.clone()).await?;
        let open = Box::pin(self.open(admitted, Start::Restored(checkpoint), None)).await?;
        if let Some(before) = state.live.replace(open) {
            before.close().await;
        }
        let checkpoint = checkpoint.clone().shared();
        (state.last, state.current) = (Some(checkpoint.clone()), Some(checkpoint));
        (state.is_lost, state.has_run) = (false, false);
        Ok(())
    }

    /// Creates sessions with the state of this one, and with its grants, which are admitted again.
    ///
    /// # Errors
    /// As for [`checkpoint`](Self::checkpoint) and [`restore`](Self::restore).
    pub async fn fork(&self, count: usize) -> Result<Vec<Session>, RunnerError> {
        let checkpoint = self.save(&mut *self.state.lock().await, "fork".to_owned()).await?.shared();
        let mut forks = Vec::with_capacity(count);
        for _ in 0..count {
            forks.push(self.runner.restore(self.request.clone(), &checkpoint).await?);
        }
        Ok(forks)
    }

    /// Releases the interpreter. The next cell starts with the state of the checkpoint that is returned.
    ///
    /// # Errors
    /// As for [`checkpoint`](Self::checkpoint).
    pub async fn park(&self) -> Result<Checkpoint, RunnerError> {
        self.release(None).await
    }

    /// As [`park`](Self::park), in a new directory that is kept.
    ///
    /// # Errors
    /// As for [`checkpoint_in`](Self::checkpoint_in).
    pub async fn park_in(&self, dir: &Path) -> Result<Checkpoint, RunnerError> {
        self.release(Some(dir)).await
    }

    async fn release(&self, dir: Option<&Path>) -> Result<Checkpoint, RunnerError> {
        let mut state = self.state.lock().await;
        let mut checkpoint = self.save(&mut state, "parked".to_owned()).await?;
        if let Some(dir) = dir {
            checkpoint = checkpoint.moved_to(dir)?;
        }
        if let Some(open) = state.live.take() {
            open.close().await;
        }
        (state.last, state.current, state.is_lost) = (Some(checkpoint.clone()), None, false);
        Ok(checkpoint)
    }

    /// Ends the session.
    pub async fn close(self) {
        if let Some(open) = self.state.into_inner().live {
            open.close().await;
        }
    }

    /// Returns true if nothing would be lost if the process ended: no cell has run since the last checkpoint in a directory that
    /// is kept.
    pub async fn is_saved(&self) -> bool {
        let state = self.state.lock().await;
        let saved = match &state.live {
            None => return !state.is_lost && state.last.as_ref().is_none_or(Checkpoint::is_kept),
            Some(_) => state.current.as_ref().zip(state.last.as_ref()),
        };
        saved.is_some_and(|(current, last)| current.is_same(last) && current.is_kept())
    }

    /// Returns true if a cell has run since the session was created, restored or forked.
    pub async fn has_run(&self) -> bool {
        self.state.lock().await.has_run
    }

    /// Gives the session a name, under which the audit log of the runner records its cells.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Returns true if the session has an interpreter in memory.
    pub async fn is_live(&self) -> bool {
        self.state.lock().await.live.is_some()
    }
}
