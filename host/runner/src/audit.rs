//! Events of a runner in the audit log.

use codebox_core::{ResultKind, RunnerError, ToolName};
use codebox_service::audit::BoxAction;
use codebox_service::{AuditError, AuditLog, CallEntry, Event, SessionAction};

use crate::runner::Runner;

impl Runner {
    /// Returns the audit log; `None` if this runner has no journal. The ends of jobs whose processes have ended are in it.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn audit_log(&self) -> Result<Option<AuditLog>, RunnerError> {
        Ok(self
            .parts
            .journal
            .as_ref()
            .map(|journal| journal.get())
            .transpose()?
            .map(|journal| journal.audit_log().clone()))
    }

    /// Records an action on a session in the audit log.
    ///
    /// # Errors
    /// Returns an error if it cannot be recorded, and the configuration requires that.
    pub fn audit_session(&self, session: &str, action: SessionAction, other: Option<&str>) -> Result<(), RunnerError> {
        let Some(journal) = &self.parts.journal else { return Ok(()) };
        let event = Event::Session { session: session.to_owned(), action, other: other.map(str::to_owned) };
        self.note_unaudited(journal.get()?.audit(&event)?.as_ref());
        Ok(())
    }

    /// Records a call of a tool by the user in the audit log, before the tool runs. `input` is JSON text. Returns the reason as well if
    /// that fails; `None` if this runner has no journal.
    ///
    /// # Errors
    /// Returns an error if it cannot be recorded, and the configuration requires that. The call must not be made then.
    pub fn audit_call(
        &self,
        tool: &ToolName,
        input: &[u8],
    ) -> Result<Option<(CallEntry, Option<String>)>, RunnerError> {
        let Some(journal) = &self.parts.journal else { return Ok(None) };
        let (entry, failure) = journal.get()?.accept_call(tool, input)?;
        Ok(Some((entry, self.note_unaudited(failure.as_ref()))))
    }

    /// Records a change of a box in the audit log.
    pub(crate) fn audit_box(&self, name: &str, action: BoxAction, omitted: u64) -> Result<(), RunnerError> {
        let Some(journal) = &self.parts.journal else { return Ok(()) };
        let failure = journal.get()?.audit(&Event::Box { name: name.to_owned(), action, call: None, omitted })?;
        self.note_unaudited(failure.as_ref());
        Ok(())
    }

    /// Notes that a job is not in the audit log, although it should be. Returns the reason.
    pub(crate) fn note_unaudited(&self, failure: Option<&AuditError>) -> Option<String> {
        let reason = RunnerError::of(ResultKind::InternalError, failure?).message().to_owned();
        self.parts.progress.note(&format!("not recorded in the audit log: {reason}"));
        Some(reason)
    }
}
