//! The sessions of a process: in memory, and their records on disk.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use codebox_core::{
    CallbackGuard, CancelToken, ExecIo, InterpreterState, Job, ResultKind, RunReport, RunnerError, SecretName,
    SecretValue, SessionContainer, SessionInfo, is_checkpoint_name,
};
use codebox_runner::{Cell, Checkpoint, Runner, Session};
use codebox_service::{Request, SessionAction};
use tokio::sync::OwnedMutexGuard;

use crate::stored::{Stored, StoredCheckpoint};

mod suspended;

use suspended::Suspended;

/// Maximum number of sessions, in memory or on disk.
const MAX_SESSIONS: usize = 4096;

/// Maximum number of sessions that are forked at once.
const MAX_FORKS: u32 = 1024;

/// Maximum number of checkpoints of a session.
const MAX_CHECKPOINTS: usize = 1024;

/// Name of the checkpoint of an imported session.
const IMPORTED: &str = "imported";

/// Extension of the directories of sessions that are being removed.
const REMOVED: &str = "removed";

/// All sessions of a user.
pub(crate) struct Keeper {
    runner: Arc<Runner>,
    /// Directory of the records.
    saved: PathBuf,
    sessions: Mutex<BTreeMap<String, Arc<Kept>>>,
    /// Number for the next directory of a checkpoint.
    next_dir: AtomicU64,
}

/// A session with its record.
pub(crate) struct Kept {
    id: String,
    dir: PathBuf,
    session: Session,
    stored: Mutex<Stored>,
    checkpoints: Mutex<BTreeMap<String, Checkpoint>>,
    cells: AtomicU64,
    /// Number of requests in progress.
    busy: AtomicU64,
    used: Mutex<(Instant, u64)>,
    is_live: AtomicBool,
    /// Held by the request that uses the session. Waiting requests are served in order.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Cancelled when the session is stopped.
    stopped: CancelToken,
    /// Journal of the cell that is suspended.
    suspended: Mutex<Suspended>,
}

/// Use of a session by a request, which has its turn.
struct InUse {
    kept: Arc<Kept>,
    turn: Option<OwnedMutexGuard<()>>,
}

impl InUse {
    /// Waits for the turn of a request.
    async fn wait(kept: Arc<Kept>) -> Self {
        kept.busy.fetch_add(1, Ordering::SeqCst);
        let turn = Arc::clone(&kept.turn);
        let mut this = Self { kept, turn: None };
        this.turn = Some(turn.lock_owned().await);
        this
    }
}

impl Deref for InUse {
    type Target = Kept;

    fn deref(&self) -> &Kept {
        &self.kept
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        *lock(&self.kept.used) = (Instant::now(), now());
        self.kept.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Keeper {
    /// Reads the records of all sessions. A record that cannot be read is left alone.
    pub(crate) fn new(runner: Arc<Runner>, saved: PathBuf) -> Self {
        let keeper = Self { runner, saved, sessions: Mutex::default(), next_dir: AtomicU64::new(0) };
        for entry in fs::read_dir(&keeper.saved).into_iter().flatten().flatten() {
            let Some(id) = entry.file_name().to_str().map(str::to_owned) else { continue };
            if entry.path().extension().is_some_and(|extension| extension == REMOVED) {
                let _ = fs::remove_dir_all(entry.path());
                continue;
            }
            if let Ok(stored) = Stored::read(&entry.path())
                && let Ok(kept) = keeper.open(&id, stored)
            {
                lock(&keeper.sessions).insert(id, Arc::new(kept));
            }
        }
        keeper
    }

    /// Opens a session from its record.
    fn open(&self, id: &str, stored: Stored) -> Result<Kept, RunnerError> {
        let dir = self.saved.join(id);
        let open = |one: &StoredCheckpoint| Checkpoint::kept(one.name.clone(), dir.join(&one.dir), one.image.clone());
        let checkpoints: BTreeMap<String, Checkpoint> =
            stored.checkpoints.iter().map(|one| (one.name.clone(), open(one))).collect();
        let last = stored.last.as_ref().map(open);
        let request = stored.request()?;
        let session = self.runner.resume(request, last, stored.has_unsaved_state, stored.has_run)?;
        let suspended = Suspended::read(&dir, stored.ended_course);
        let kept = self.kept(id.to_owned(), dir, session, stored, checkpoints);
        *lock(&kept.suspended) = suspended;
        Ok(kept)
    }

    fn kept(
        &self,
        id: String,
        dir: PathBuf,
        session: Session,
        stored: Stored,
        checkpoints: BTreeMap<String, Checkpoint>,
    ) -> Kept {
        Kept {
            session: session.named(id.clone()),
            id,
            dir,
            used: Mutex::new((Instant::now(), stored.used)),
            stored: Mutex::new(stored),
            checkpoints: Mutex::new(checkpoints),
            cells: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            is_live: AtomicBool::new(false),
            turn: Arc::default(),
            stopped: CancelToken::new(),
            suspended: Mutex::default(),
        }
    }

    /// Adds a session under a new id.
    fn add(&self, session: Session, stored: Stored) -> Result<Arc<Kept>, RunnerError> {
        let mut sessions = lock(&self.sessions);
        if sessions.len() >= MAX_SESSIONS {
            let line = format!("there are {MAX_SESSIONS} sessions already");
            return Err(RunnerError::new(ResultKind::Busy, line).with_fix("stop some of them"));
        }
        let id = loop {
            let id = format!("{:010x}", rand::random::<u64>() >> 24);
            if !sessions.contains_key(&id) {
                break id;
            }
        };
        let dir = self.saved.join(&id);
        let created = fs::create_dir(&dir).and_then(|()| stored.write(&dir));
        created.map_err(|error| disk_error("record a session in", &dir, &error))?;
        let kept = Arc::new(self.kept(id.clone(), dir, session, stored, BTreeMap::new()));
        sessions.insert(id, Arc::clone(&kept));
        Ok(kept)
    }

    fn get(&self, id: &str) -> Result<Arc<Kept>, RunnerError> {
        lock(&self.sessions).get(id).cloned().ok_or_else(|| {
            let shown: String = id.chars().take(40).map(|c| if c.is_ascii_graphic() { c } else { '?' }).collect();
            let line = format!("there is no session {shown}");
            RunnerError::new(ResultKind::InvalidRequest, line).with_fix("see codebox session list")
        })
    }

    /// Waits for the turn of a request for a session.
    async fn enter(&self, id: &str) -> Result<InUse, RunnerError> {
        loop {
            let entered = InUse::wait(self.get(id)?).await;
            // The request before may have ended the session, or replaced it.
            if lock(&self.sessions).get(id).is_some_and(|current| Arc::ptr_eq(current, &entered.kept)) {
                return Ok(entered);
            }
        }
    }

    /// Creates a session, and returns its id.
    pub(crate) async fn create(&self, job: Job, container: SessionContainer) -> Result<String, RunnerError> {
        let mut stored = Stored::new(job, now());
        stored.container = container;
        let session = self.runner.session(stored.request()?).await?;
        let id = self.add(session, stored)?.id.clone();
        self.audit_new(&id, SessionAction::Created, None).await?;
        Ok(id)
    }

    /// Records a new session in the audit log. One that has to be recorded and cannot be is removed.
    async fn audit_new(&self, id: &str, action: SessionAction, from: Option<&str>) -> Result<(), RunnerError> {
        let recorded = self.runner.audit_session(id, action, from);
        if recorded.is_err() {
            // The caller learns no id.
            let _ = self.stop(id).await;
        }
        recorded
    }

    /// Runs a cell.
    pub(crate) async fn exec(&self, id: &str, cell: Cell, io: &mut ExecIo) -> Result<RunReport, RunnerError> {
        let Some((kept, _stopped)) = self.enter_for_cell(id, io.cancel.clone()).await? else {
            return self.get(id)?.report_cancelled(cell, io).await;
        };
        kept.check_not_suspended()?;
        // The process may be killed while the cell runs.
        kept.record(|stored| stored.has_unsaved_state = true)?;
        let ran = Box::pin(kept.session.exec_with(cell, io)).await;
        kept.cells.fetch_add(1, Ordering::Relaxed);
        // The cell has run, and its report is not lost because the disk is full or the session was stopped meanwhile. The
        // record says that there is unsaved state.
        let _ = kept.update_state().await;
        ran.map_err(|error| kept.named(error))
    }

    /// Waits for the turn of a cell, which is cancelled when the session is stopped; `None` if it is cancelled before.
    async fn enter_for_cell(
        &self,
        id: &str,
        cancel: CancelToken,
    ) -> Result<Option<(InUse, CallbackGuard)>, RunnerError> {
        let entered = tokio::select! {
            entered = self.enter(id) => entered?,
            () = cancel.cancelled() => return Ok(None),
        };
        let stopped = entered.stopped.on_cancel(move || cancel.cancel());
        Ok(Some((entered, stopped)))
    }

    /// Creates sessions with the state of another one, and returns their ids.
    pub(crate) async fn fork(&self, id: &str, count: u32) -> Result<Vec<String>, RunnerError> {
        if count == 0 || count > MAX_FORKS {
            let line = format!("cannot fork a session {count} times: the number must be from 1 to {MAX_FORKS}");
            return Err(RunnerError::new(ResultKind::InvalidRequest, line));
        }
        let kept = self.enter(id).await?;
        kept.check_not_suspended()?;
        let forks = kept.session.fork(count as usize).await;
        kept.update_state().await?;
        let forks = forks?;
        let job = lock(&kept.stored).job.clone();
        let mut ids = Vec::with_capacity(forks.len());
        for fork in forks {
            let added = match self.add_fork(fork, job.clone()) {
                Ok(added) => self.audit_new(&added, SessionAction::Forked, Some(id)).await.map(|()| added),
                Err(error) => Err(error),
            };
            match added {
                Ok(id) => ids.push(id),
                Err(error) => {
                    // The caller learns no id of theirs.
                    for id in &ids {
                        let _ = self.stop(id).await;
                    }
                    return Err(error);
                }
            }
        }
        Ok(ids)
    }

    /// Adds a session that has an interpreter, and returns its id.
    fn add_fork(&self, fork: Session, job: Job) -> Result<String, RunnerError> {
        let added = self.add(fork, Stored::new(job, now()))?;
        added.is_live.store(true, Ordering::Relaxed);
        added.record(|stored| (stored.has_unsaved_state, stored.has_run) = (true, false))?;
        Ok(added.id.clone())
    }

    /// Writes the state of a session, or that of a checkpoint, to a file.
    pub(crate) async fn export(
        &self,
        id: &str,
        name: Option<&str>,
        to: impl Write + Send + 'static,
    ) -> Result<(), RunnerError> {
        let (session, checkpoint) = {
            let kept = self.enter(id).await?;
            kept.check_not_suspended()?;
            let checkpoint = match name {
                Some(name) => kept.checkpoint(name),
                None => kept.session.snapshot().await,
            };
            kept.update_state().await?;
            self.runner.audit_session(id, SessionAction::Exported, name)?;
            (Arc::clone(&kept.kept), checkpoint?)
        };
        // The session is free while a client reads.
        session.session.export_checkpoint(&checkpoint, to).await
    }

    /// Creates a session from a file, with a checkpoint of the state in it, and returns the id of the session.
    pub(crate) async fn import(&self, job: Job, from: impl Read + Send + 'static) -> Result<String, RunnerError> {
        let session = self.runner.import(Request::try_from(job.clone())?, from).await?;
        let id = self.add_fork(session, job)?;
        self.audit_new(&id, SessionAction::Imported, None).await?;
        match self.checkpoint(&id, IMPORTED).await {
            Ok(()) => Ok(id),
            Err(error) => {
                // The caller learns no id.
                let _ = self.stop(&id).await;
                Err(error)
            }
        }
    }

    fn new_dir(&self, kept: &Kept) -> PathBuf {
        loop {
            let path = kept.dir.join(self.next_dir.fetch_add(1, Ordering::Relaxed).to_string());
            if !path.exists() {
                return path;
            }
        }
    }

    /// Saves the state of a session under a name.
    pub(crate) async fn checkpoint(&self, id: &str, name: &str) -> Result<(), RunnerError> {
        if !is_checkpoint_name(name) {
            let line = format!("the checkpoint name {name:?} is invalid");
            let fix = "use at most 64 letters, digits, `.`, `_` and `-`, and no `.` or `-` at the start";
            return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix));
        }
        let kept = self.enter(id).await?;
        kept.check_not_suspended()?;
        let is_new = !lock(&kept.checkpoints).contains_key(name);
        if is_new && lock(&kept.checkpoints).len() >= MAX_CHECKPOINTS {
            let line = format!("the session has {MAX_CHECKPOINTS} checkpoints already");
            return Err(RunnerError::new(ResultKind::Busy, line));
        }
        let path = self.new_dir(&kept);
        let saved = kept.session.checkpoint_in(name, &path).await;
        if saved.is_err() {
            kept.update_state().await?;
        }
        let checkpoint = saved?;
        let one = StoredCheckpoint::of(name, &checkpoint);
        let replaced = lock(&kept.checkpoints).insert(name.to_owned(), checkpoint);
        kept.set_last(one.clone(), |stored| {
            stored.checkpoints.retain(|other| other.name != one.name);
            stored.checkpoints.push(one);
        })?;
        if let Some(replaced) = replaced {
            kept.remove_unused(replaced.dir());
        }
        kept.update_state().await
    }

    /// Returns to the state of a checkpoint.
    pub(crate) async fn restore(&self, id: &str, name: &str) -> Result<(), RunnerError> {
        let kept = self.enter(id).await?;
        kept.check_not_suspended()?;
        let checkpoint = kept.checkpoint(name)?;
        self.runner.audit_session(id, SessionAction::Restored, Some(name))?;
        kept.session.restore(&checkpoint).await?;
        let one = lock(&kept.stored).checkpoints.iter().find(|one| one.name == name).cloned();
        if let Some(one) = one {
            kept.set_last(one, |_| ())?;
        }
        kept.update_state().await
    }

    /// Gives a session values of its secrets. The next interpreter uses them.
    pub(crate) async fn give_secrets(
        &self,
        id: &str,
        values: Vec<(SecretName, SecretValue)>,
    ) -> Result<(), RunnerError> {
        let kept = self.enter(id).await?;
        let mut stored = lock(&kept.stored).clone();
        for (name, value) in values {
            let secrets = &mut stored.job.grants.secrets;
            let Some(secret) = secrets.iter_mut().find(|secret| secret.name == name) else {
                let line = format!("the session {id} has no secret {name}");
                let fix = "create a session with it: codebox session new --secret";
                return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix));
            };
            secret.value = Some(value);
        }
        if kept.session.is_live().await {
            let line = format!("the session {id} has an interpreter, which has the values already");
            let fix = format!("park it first, to change a value: codebox session park {id}");
            return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix));
        }
        self.reopen(&kept, stored)
    }

    /// Replaces a session without an interpreter by one from this record: all of its state is on disk.
    fn reopen(&self, kept: &Kept, stored: Stored) -> Result<(), RunnerError> {
        let mut reopened = self.open(&kept.id, stored)?;
        // The request that ends the session may wait already.
        reopened.stopped = kept.stopped.clone();
        reopened.cells.store(kept.cells.load(Ordering::Relaxed), Ordering::Relaxed);
        lock(&self.sessions).insert(kept.id.clone(), Arc::new(reopened));
        Ok(())
    }

    /// Releases the interpreter of a session.
    pub(crate) async fn park(&self, id: &str) -> Result<(), RunnerError> {
        let kept = self.enter(id).await?;
        self.park_kept(&kept).await
    }

    async fn park_kept(&self, kept: &Kept) -> Result<(), RunnerError> {
        if !kept.session.is_live().await && !lock(&kept.stored).has_unsaved_state {
            return Ok(());
        }
        let path = self.new_dir(kept);
        let parked = kept.session.park_in(&path).await;
        if parked.is_err() {
            // It is tried again later.
            lock(&kept.used).0 = Instant::now();
            kept.update_state().await?;
        }
        kept.set_last(StoredCheckpoint::of("parked", &parked?), |_| ())?;
        kept.update_state().await
    }

    /// Ends a session, and its cells.
    pub(crate) async fn stop(&self, id: &str) -> Result<(), RunnerError> {
        self.get(id)?.stopped.cancel();
        let kept = self.enter(id).await?;
        // The process may be killed while it removes the files.
        let removed = kept.dir.with_extension(REMOVED);
        fs::rename(&kept.dir, &removed).map_err(|error| disk_error("remove", &kept.dir, &error))?;
        lock(&self.sessions).remove(id);
        if let Err(error) = self.runner.audit_session(id, SessionAction::Stopped, None) {
            // It has ended in any case.
            tracing::warn!(%error, "cannot record the end of a session");
        }
        fs::remove_dir_all(&removed).map_err(|error| disk_error("remove", &removed, &error))
    }

    /// Returns facts about all sessions, the oldest first.
    pub(crate) fn list(&self) -> Vec<SessionInfo> {
        let sessions: Vec<Arc<Kept>> = lock(&self.sessions).values().cloned().collect();
        let mut all: Vec<SessionInfo> = sessions.iter().map(|kept| kept.info()).collect();
        all.sort_by(|one, other| (one.created, &one.id).cmp(&(other.created, &other.id)));
        all
    }

    /// Parks the sessions that no request has used for this time. Returns those that still have an interpreter then, with the reason.
    ///
    /// A session that cannot be saved, for example because it has files open, stays.
    pub(crate) async fn park_idle(&self, idle: Duration) -> Vec<(String, String)> {
        let sessions: Vec<Arc<Kept>> = lock(&self.sessions).values().cloned().collect();
        let mut left = Vec::new();
        for kept in sessions {
            let is_busy = || kept.busy.load(Ordering::SeqCst) > 0;
            if !kept.is_live.load(Ordering::Relaxed) && !is_busy() {
                continue;
            }
            let is_idle = lock(&kept.used).0.elapsed() >= idle;
            let turn = if is_busy() || !is_idle { None } else { kept.turn.try_lock().ok() };
            let reason = match turn {
                None => Some("a cell runs in it, or has just run".to_owned()),
                Some(_turn) => self.park_kept(&kept).await.err().map(|error| error.message().to_owned()),
            };
            left.extend(
                reason.filter(|_| kept.is_live.load(Ordering::Relaxed) || is_busy()).map(|why| (kept.id.clone(), why)),
            );
        }
        left
    }
}

impl Kept {
    fn info(&self) -> SessionInfo {
        let stored = lock(&self.stored);
        let state = match (self.busy.load(Ordering::SeqCst), self.is_live.load(Ordering::Relaxed)) {
            (1.., _) => InterpreterState::Busy,
            (0, _) if lock(&self.suspended).is_some() => InterpreterState::Suspended,
            (0, true) => InterpreterState::Live,
            (0, false) if stored.has_unsaved_state => InterpreterState::Lost,
            (0, false) if stored.last.is_none() => InterpreterState::New,
            (0, false) => InterpreterState::Parked,
        };
        SessionInfo {
            id: self.id.clone(),
            language: stored.job.language.to_string(),
            state,
            created: stored.created,
            used: lock(&self.used).1,
            cells: self.cells.load(Ordering::Relaxed),
            checkpoints: stored.checkpoints.iter().map(|one| one.name.clone()).collect(),
            suspended: lock(&self.suspended).waiting(),
        }
    }

    /// Returns the report of a cell that was cancelled while it waited for its turn.
    async fn report_cancelled(&self, cell: Cell, io: &mut ExecIo) -> Result<RunReport, RunnerError> {
        Box::pin(self.session.exec_with(cell, io)).await
    }

    /// Returns an error whose fix has the id of the session.
    fn named(&self, error: RunnerError) -> RunnerError {
        match error.fix().map(|fix| fix.replace("session secret ID ", &format!("session secret {} ", self.id))) {
            Some(fix) => error.with_fix(fix),
            None => error,
        }
    }

    /// Returns a checkpoint of the session.
    fn checkpoint(&self, name: &str) -> Result<Checkpoint, RunnerError> {
        lock(&self.checkpoints).get(name).cloned().ok_or_else(|| {
            let line = format!("the session {} has no checkpoint {name:?}", self.id);
            RunnerError::new(ResultKind::InvalidRequest, line).with_fix("see codebox session show")
        })
    }

    /// Changes the record, and writes it if it differs.
    fn record(&self, change: impl FnOnce(&mut Stored)) -> Result<(), RunnerError> {
        let mut stored = lock(&self.stored);
        let mut changed = stored.clone();
        change(&mut changed);
        if *stored == changed {
            return Ok(());
        }
        changed.write(&self.dir).map_err(|error| disk_error("record a session in", &self.dir, &error))?;
        *stored = changed;
        Ok(())
    }

    /// Records the state that was saved last, with further changes, and removes the one before if it has no name.
    fn set_last(&self, last: StoredCheckpoint, change: impl FnOnce(&mut Stored)) -> Result<(), RunnerError> {
        let mut before = None;
        self.record(|stored| {
            before = stored.last.replace(last);
            stored.used = now();
            change(stored);
        })?;
        if let Some(before) = before {
            self.remove_unused(&self.dir.join(before.dir));
        }
        Ok(())
    }

    /// Records the state of the interpreter after a request.
    async fn update_state(&self) -> Result<(), RunnerError> {
        self.is_live.store(self.session.is_live().await, Ordering::Relaxed);
        let (is_saved, has_run) = (self.session.is_saved().await, self.session.has_run().await);
        self.record(|stored| (stored.has_unsaved_state, stored.has_run) = (!is_saved, has_run))
    }

    /// Removes the directory of a state that neither a checkpoint nor the session needs.
    fn remove_unused(&self, dir: &Path) {
        let stored = lock(&self.stored);
        let mut used = stored.checkpoints.iter().chain(&stored.last);
        if !used.any(|one| self.dir.join(&one.dir) == dir) {
            // Remains are removed with the session.
            let _ = fs::remove_dir_all(dir);
        }
    }
}

fn disk_error(action: &str, path: &Path, error: &std::io::Error) -> RunnerError {
    RunnerError::new(ResultKind::InternalError, format!("cannot {action} {}: {error}", path.display()))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
