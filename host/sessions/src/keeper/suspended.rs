//! Cells that are suspended at a call of a tool, and resumed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use codebox_core::{Access, Effects, ExecIo, Outcome, ResultKind, RunReport, RunnerError, SuspendedCall};
use codebox_files::{open_last_dir, sync_tree};
use codebox_runner::{Cell, Course, Resumption, SuspendedCell};

use super::{Keeper, Kept, disk_error, lock};
use crate::exec::ClientTools;
use crate::journal::Journal;
use crate::stored::{Stored, StoredCheckpoint};
use crate::suspension::{End, Suspendable};

/// Name of the state after a cell that was suspended.
const ENDED: &str = "ended";

/// Suspended cell of a session.
#[derive(Debug, Default)]
pub(super) enum Suspended {
    #[default]
    No,
    Cell(Box<Journal>),
    /// Its journal cannot be read, for this reason.
    Damaged(String),
}

impl Suspended {
    /// Reads the suspended cell in the directory of a session. `ended` is the course of the last one that has ended.
    pub(super) fn read(dir: &Path, ended: Option<Course>) -> Self {
        match Journal::read(dir) {
            Ok(None) => Self::No,
            Ok(Some(journal)) if Some(journal.course) == ended => match Journal::remove_from(dir) {
                Ok(()) => Self::No,
                Err(error) => Self::Damaged(error.to_string()),
            },
            Ok(Some(journal)) => Self::Cell(Box::new(journal)),
            Err(error) => Self::Damaged(error.to_string()),
        }
    }

    pub(super) fn is_some(&self) -> bool {
        !matches!(self, Self::No)
    }

    /// Returns the call that waits for an approval.
    pub(super) fn waiting(&self) -> Option<SuspendedCall> {
        match self {
            Self::Cell(journal) => journal.waiting(),
            Self::No | Self::Damaged(_) => None,
        }
    }
}

impl Keeper {
    /// Runs a cell that is suspended at a call which needs an approval.
    ///
    /// The cell starts with a saved state and recorded random numbers, so that it can be run again up to the call.
    pub(crate) async fn exec_suspendable(
        &self,
        id: &str,
        cell: Cell,
        client: String,
        tools: Arc<ClientTools>,
        io: &mut ExecIo,
    ) -> Result<RunReport, RunnerError> {
        let Some((kept, _stopped)) = self.enter_for_cell(id, io.cancel.clone()).await? else {
            return self.get(id)?.report_cancelled(cell, io).await;
        };
        kept.check_not_suspended()?;
        let obstacle = self.prepare_to_suspend(&kept).await;
        let continues = kept.session.has_run().await && kept.session.is_saved().await;
        kept.record(|stored| stored.has_unsaved_state = true)?;
        let journal = match obstacle {
            None => {
                let course = Course { seed: rand::random(), continues };
                let created = Journal::create(&kept.dir, cell.clone(), course, client);
                Ok(created.map_err(|error| kept.journal_error(&error))?)
            }
            Some(obstacle) => Err(obstacle),
        };
        self.run_suspendable(&kept, cell, journal, tools, io).await.map_err(|error| kept.named(error))
    }

    /// Runs a suspended cell again, with a decision about the call at this position.
    pub(crate) async fn resume(
        &self,
        id: &str,
        position: u64,
        resumption: Resumption,
        tools: Arc<ClientTools>,
        io: &mut ExecIo,
    ) -> Result<RunReport, RunnerError> {
        let Some((kept, _stopped)) = self.enter_for_cell(id, io.cancel.clone()).await? else {
            let line = "it was cancelled while another request used the session";
            return Err(RunnerError::new(ResultKind::Cancelled, line));
        };
        let refused = |line: String, fix: String| RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix);
        let discard = format!("end it with `codebox session resume {id} --discard`");
        {
            let suspended = lock(&kept.suspended);
            let journal = kept.journal(&suspended)?;
            kept.check_position(journal, position)?;
            match (journal.waiting(), resumption) {
                (Some(_), Resumption::Approve | Resumption::Deny) | (None, Resumption::Continue) => {}
                (Some(call), Resumption::Continue) => {
                    let line = format!("the session {id} waits for the approval of a call: {}", call.name);
                    return Err(refused(line, "use --approve or --deny".to_owned()));
                }
                (None, Resumption::Approve | Resumption::Deny) => {
                    let line = format!("the session {id} waits for no call: its cell was stopped after the decision");
                    return Err(refused(line, format!("use `codebox session resume {id} --continue`, or {discard}")));
                }
            }
            if !journal.is_repeatable(kept.has_outside()) {
                let line =
                    "the cell was stopped after it may have changed files or used the network, which would be repeated";
                return Err(refused(line.to_owned(), discard));
            }
        }
        let Suspended::Cell(mut journal) = std::mem::take(&mut *lock(&kept.suspended)) else {
            return Err(not_suspended(id));
        };
        let cell = journal.cell.clone();
        if let Err(error) = journal.start(resumption == Resumption::Approve) {
            *lock(&kept.suspended) = kept.read_suspended();
            return Err(kept.journal_error(&error));
        }
        self.run_suspendable(&kept, cell, Ok(*journal), tools, io).await.map_err(|error| kept.named(error))
    }

    /// Runs a cell with a journal, or without one for a reason.
    async fn run_suspendable(
        &self,
        kept: &Kept,
        cell: Cell,
        journal: Result<Journal, String>,
        tools: Arc<ClientTools>,
        io: &mut ExecIo,
    ) -> Result<RunReport, RunnerError> {
        let course = journal.as_ref().ok().map(|journal| journal.course);
        let was_suspended = journal.as_ref().is_ok_and(Journal::is_suspended);
        let suspendable = Suspendable::new(tools, journal, io.cancel.clone());
        io.tools = Some(suspendable.tools());
        io.stdout = suspendable.counted(0, io.stdout.take());
        io.stderr = suspendable.counted(1, io.stderr.take());
        let ran = match course {
            Some(course) => Box::pin(kept.session.exec_repeatable(cell, course, io)).await,
            None => Box::pin(kept.session.exec_with(cell, io)).await,
        };
        kept.cells.fetch_add(1, Ordering::Relaxed);
        // The sinks have delivered all output when they are dropped.
        (io.stdout, io.stderr, io.tools) = (None, None, None);
        let Some(course) = course else {
            let _ = kept.update_state().await;
            return ran;
        };
        let ran = ran.map(|mut report| {
            if was_suspended && let Some(session) = &mut report.session {
                // The state before the cell was saved for it.
                (session.was_lost, session.restored_from) = (false, None);
            }
            report
        });
        let has_ended = matches!(&ran, Ok(report) if matches!(report.outcome, Outcome::Exited(_)));
        let end = suspendable.end().or_else(|| suspendable.unmade_call().filter(|_| has_ended));
        if end.is_none() && (has_ended || !was_suspended) {
            if was_suspended {
                self.save_ended_cell(kept, course).await?;
            }
            Journal::remove_from(&kept.dir).map_err(|error| kept.journal_error(&error))?;
            let _ = kept.update_state().await;
            return ran;
        }
        let has_effects = ran.as_ref().map_or_else(
            // A cell that was refused has not run, and one without such grants cannot have had effects.
            |error| kept.has_outside() && matches!(error.kind(), ResultKind::EngineLost | ResultKind::InternalError),
            |report| report.effects == Effects::Possible,
        );
        let recorded = match &end {
            Some(End::Suspended) => suspendable.record_delivered(),
            // Another course has other output.
            Some(End::Failed(_)) => suspendable.record_stop(has_effects),
            None => suspendable.record_delivered().and_then(|()| suspendable.record_stop(has_effects)),
        };
        let suspended = kept.read_suspended();
        let (waiting, is_suspended) = (suspended.waiting(), suspended.is_some());
        *lock(&kept.suspended) = suspended;
        if is_suspended {
            // All of its state is on disk.
            kept.is_live.store(false, Ordering::Relaxed);
            kept.record(|stored| (stored.has_unsaved_state, stored.has_run) = (false, course.continues))?;
            kept.sync()?;
            if has_ended {
                // Its interpreter has taken another course.
                self.reopen(kept, lock(&kept.stored).clone())?;
            }
        }
        recorded.map_err(|error| kept.journal_error(&error))?;
        match end {
            Some(End::Failed(error)) => Err(error),
            Some(End::Suspended) => ran.map(|mut report| {
                report.outcome = Outcome::Suspended;
                // They come again with the report of the complete cell.
                report.results.clear();
                let session = report.session.get_or_insert_default();
                (session.is_kept, session.suspended) = (true, waiting);
                report
            }),
            None => ran.map(|mut report| {
                // The cell can be run again, or the session goes on with the state before it.
                report.session.get_or_insert_default().is_kept = true;
                report
            }),
        }
    }

    /// Saves the state after a cell that was suspended, whose calls cannot be made again, and records that the cell has ended. A state that
    /// cannot be saved, for example because files are open, is that of the interpreter alone, as after other cells.
    async fn save_ended_cell(&self, kept: &Kept, course: Course) -> Result<(), RunnerError> {
        let path = self.new_dir(kept);
        let ended = |stored: &mut Stored| stored.ended_course = Some(course);
        match kept.session.checkpoint_in(ENDED, &path).await {
            Ok(saved) => {
                kept.set_last(StoredCheckpoint::of(ENDED, &saved), ended)?;
                kept.sync()
            }
            Err(_) => kept.record(|stored| {
                stored.has_unsaved_state = true;
                ended(stored);
            }),
        }
    }

    /// Saves the state of a session, and releases its interpreter. Returns the reason if its next cell cannot be suspended.
    async fn prepare_to_suspend(&self, kept: &Kept) -> Option<String> {
        if kept.session.is_in_container() {
            return Some("it runs in a container".to_owned());
        }
        if !kept.session.is_live().await {
            return None;
        }
        self.park_kept(kept).await.err().map(|error| error.message().to_owned())
    }

    /// Returns the suspended cell of a session.
    pub(crate) fn suspended(&self, id: &str) -> Result<SuspendedCell, RunnerError> {
        let kept = self.get(id)?;
        if !lock(&kept.suspended).is_some() && kept.busy.load(Ordering::SeqCst) > 0 {
            let line = format!("the session {id} is in use: a cell runs in it");
            return Err(RunnerError::new(ResultKind::Busy, line).with_fix("wait until it has ended"));
        }
        let suspended = lock(&kept.suspended);
        let journal = kept.journal(&suspended)?;
        let (client, calls) = (journal.client.clone(), journal.listed());
        Ok(SuspendedCell { client, position: journal.position(), calls, call: journal.waiting() })
    }

    /// Ends a suspended cell, whose last call has this position. Without one, only a cell whose record is damaged is ended. The session has
    /// the state before it.
    pub(crate) async fn discard(&self, id: &str, position: Option<u64>) -> Result<(), RunnerError> {
        let kept = self.enter(id).await?;
        match (&*lock(&kept.suspended), position) {
            (Suspended::No, _) => return Err(not_suspended(id)),
            (Suspended::Cell(journal), Some(position)) => kept.check_position(journal, position)?,
            (Suspended::Cell(_), None) => return Err(kept.waits_for_another()),
            (Suspended::Damaged(_), _) => {}
        }
        Journal::remove_from(&kept.dir).map_err(|error| kept.journal_error(&error))?;
        let stored = lock(&kept.stored).clone();
        self.reopen(&kept, stored)
    }
}

impl Kept {
    /// Fails if a cell is suspended.
    pub(super) fn check_not_suspended(&self) -> Result<(), RunnerError> {
        if !lock(&self.suspended).is_some() {
            return Ok(());
        }
        let line = format!("the session {} is suspended: a cell waits for the approval of a call", self.id);
        let fix = format!("use `codebox session resume {} --approve`, `--deny` or `--discard`", self.id);
        Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix))
    }

    fn read_suspended(&self) -> Suspended {
        Suspended::read(&self.dir, lock(&self.stored).ended_course)
    }

    /// Returns the journal of the suspended cell.
    fn journal<'s>(&self, suspended: &'s Suspended) -> Result<&'s Journal, RunnerError> {
        match suspended {
            Suspended::Cell(journal) => Ok(journal),
            Suspended::No => Err(not_suspended(&self.id)),
            Suspended::Damaged(why) => {
                let line = format!("the record of the suspended cell of {} is damaged: {why}", self.id);
                let fix = format!("end the cell with `codebox session resume {} --discard`", self.id);
                Err(RunnerError::new(ResultKind::InternalError, line).with_fix(fix))
            }
        }
    }

    /// Fails if the last call of the suspended cell has another position.
    fn check_position(&self, journal: &Journal, position: u64) -> Result<(), RunnerError> {
        if journal.position() == position { Ok(()) } else { Err(self.waits_for_another()) }
    }

    fn waits_for_another(&self) -> RunnerError {
        let line = format!("the session {} waits for another call than the one that was decided", self.id);
        RunnerError::new(ResultKind::InvalidRequest, line).with_fix(format!("see codebox session show {}", self.id))
    }

    /// Writes the record and the saved state through to the disk: a suspended cell is resumed after the machine was off.
    fn sync(&self) -> Result<(), RunnerError> {
        let last = lock(&self.stored).last.as_ref().map(|last| self.dir.join(&last.dir));
        let synced = last.map_or(Ok(()), |last| sync_tree(&open_last_dir(&last)?));
        let synced = synced.and_then(|()| Stored::sync(&self.dir));
        synced.map_err(|error| disk_error("write through", &self.dir, &error))
    }

    /// Returns true if cells can change files of the user or use the network.
    fn has_outside(&self) -> bool {
        let stored = lock(&self.stored);
        let grants = &stored.job.grants;
        !grants.net.is_empty() || grants.dirs.iter().any(|dir| dir.access == Access::ReadWrite)
    }

    fn journal_error(&self, error: &std::io::Error) -> RunnerError {
        disk_error("record a cell in", &self.dir, error)
    }
}

fn not_suspended(id: &str) -> RunnerError {
    let line = format!("the session {id} is not suspended");
    RunnerError::new(ResultKind::InvalidRequest, line).with_fix("see codebox session list")
}
