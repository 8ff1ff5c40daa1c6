//! Events of a runner in the audit log.

use codebox_core::{ResultKind, RunnerError, SecretValues, ToolName};
use codebox_service::audit::{BoxAction, BoxStarted};
use codebox_service::{
    Audit, AuditError, AuditLog, CallEntry, EnvRequest, Event, Journal, Program, Request, SessionAction,
};
use tokio::task_local;

use crate::runner::Runner;

task_local! {
    /// Use of the audit log by requests of another process, whose settings can differ.
    static AUDIT: Audit;
}

/// Runs a future whose jobs use the audit log as given, and not as the settings of this process say.
pub async fn with_audit<T>(audit: Audit, work: impl Future<Output = T>) -> T {
    AUDIT.scope(audit, work).await
}

/// Parts of a request for its record if it is refused.
pub(crate) struct Refusal {
    program: String,
    tool: Option<ToolName>,
    /// Values of its variables, which its record must not contain.
    values: SecretValues,
}

impl Refusal {
    pub(crate) fn of(request: &Request) -> Self {
        let values = request.env.iter().filter_map(|variable| match variable {
            EnvRequest::Set(_, value) => Some(value.clone()),
            EnvRequest::FromHost(_) => None,
        });
        let (program, tool) = (name_of(&request.program), request.tool.clone());
        Self { program, tool, values: SecretValues::new(values) }
    }
}

/// Returns the name of a program for the audit log.
fn name_of(program: &Program) -> String {
    match program {
        Program::Inline(_) => "-c".to_owned(),
        Program::Stdin(_) => "-".to_owned(),
        Program::File(path) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        Program::Module(name) => name.clone(),
        Program::Command(words) => words.first().cloned().unwrap_or_default(),
        Program::Source(source) => source.file_name().to_owned(),
    }
}

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

    /// Returns the journal, with the use of its audit log that applies to the current task; `None` if this runner has none.
    pub(crate) fn journal(&self) -> Result<Option<Journal>, RunnerError> {
        let Some(journal) = &self.parts.journal else { return Ok(None) };
        let journal = journal.get()?.clone();
        Ok(Some(match AUDIT.try_with(|audit| *audit) {
            Ok(audit) => journal.with_audit(audit),
            Err(_) => journal,
        }))
    }

    /// Records a request that was refused before its program could run.
    pub(crate) fn record_refusal(&self, refusal: &Refusal, error: &RunnerError) {
        let event = Event::refused(&refusal.program, refusal.tool.as_ref(), &refusal.values.all(), error);
        if let Ok(Some(journal)) = self.journal()
            && let Err(error) = journal.audit(&event)
        {
            // The request is refused in any case.
            tracing::warn!(%error, "cannot record a refused request");
        }
    }

    /// Records an action on a session in the audit log.
    ///
    /// # Errors
    /// Returns an error if it cannot be recorded, and the configuration requires that.
    pub fn audit_session(&self, session: &str, action: SessionAction, other: Option<&str>) -> Result<(), RunnerError> {
        let Some(journal) = self.journal()? else { return Ok(()) };
        let event = Event::Session { session: session.to_owned(), action, other: other.map(str::to_owned) };
        self.note_unaudited(journal.audit(&event)?.as_ref());
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
        let Some(journal) = self.journal()? else { return Ok(None) };
        let (entry, failure) = journal.accept_call(tool, input)?;
        Ok(Some((entry, self.note_unaudited(failure.as_ref()))))
    }

    /// Records in the audit log that a box starts.
    pub(crate) fn audit_box_start(&self, name: &str, start: BoxStarted) -> Result<(), RunnerError> {
        self.audit_box(name, BoxAction::Started, Some(Box::new(start)), 0)
    }

    /// Records in the audit log that a box has ended. `omitted` is the number of calls that have no record.
    pub(crate) fn audit_box_end(&self, name: &str, omitted: u64) -> Result<(), RunnerError> {
        self.audit_box(name, BoxAction::Stopped, None, omitted)
    }

    fn audit_box(
        &self,
        name: &str,
        action: BoxAction,
        start: Option<Box<BoxStarted>>,
        omitted: u64,
    ) -> Result<(), RunnerError> {
        let Some(journal) = self.journal()? else { return Ok(()) };
        let event = Event::Box { name: name.to_owned(), action, start, call: None, omitted };
        let failure = journal.audit(&event)?;
        self.note_unaudited(failure.as_ref());
        Ok(())
    }

    /// Notes that a job is not in the audit log, although it should be. Returns the reason.
    pub(crate) fn note_unaudited(&self, failure: Option<&AuditError>) -> Option<String> {
        self.note_late(Some(RunnerError::of(ResultKind::InternalError, failure?).message().to_owned()))
    }

    /// Notes that the end of a job is not recorded, for this reason. Returns the reason.
    pub(crate) fn note_late(&self, reason: Option<String>) -> Option<String> {
        let reason = reason?;
        self.parts.progress.note(&format!("not recorded in the audit log: {reason}"));
        Some(reason)
    }
}
