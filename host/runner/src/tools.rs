//! Host tools of a run.

use std::sync::Arc;

use codebox_core::{ExecIo, Job, ResultKind, RunReport, RunnerError, ToolName};
use codebox_service::Request;
use codebox_tools::{RecordedTools, ToolRun};
use tokio::runtime::Handle;

use crate::runner::Runner;
use crate::session::CellTools;

impl Runner {
    /// Checks the tools of a request.
    pub(crate) fn check_tools(&self, request: &Request) -> Result<(), RunnerError> {
        if request.tools.is_empty() {
            return Ok(());
        }
        let refused = |line: String, fix: String| Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix));
        let toolbox = self.parts.tools.as_ref();
        let unknown = request.tools.iter().find(|name| !toolbox.is_some_and(|toolbox| toolbox.contains(name)));
        if let Some(name) = unknown {
            let known: Vec<&str> =
                toolbox.iter().flat_map(|toolbox| toolbox.names()).map(|name| name.as_str()).collect();
            let fix = match known.is_empty() {
                true => "give the runner a toolbox".to_owned(),
                false => format!("use one of {}", known.join(", ")),
            };
            return refused(format!("there is no host tool {name}"), fix);
        }
        Ok(())
    }

    /// Starts the record of the calls of a cell that another process runs, with these tools of this runner; `None` without tools.
    #[must_use]
    pub fn tools_of_cell(&self, granted: &[ToolName], executor: Handle) -> Option<CellTools> {
        let toolbox = self.parts.tools.as_ref().filter(|_| !granted.is_empty())?;
        Some(CellTools { run: toolbox.start_run(granted, executor.clone()), executor })
    }

    /// Gives a run its tools, and returns the record of their calls; `None` without tools. A run whose caller supplies its tools keeps
    /// those. Must be called in a tokio runtime.
    pub(crate) fn start_tools(&self, job: &Job, io: &mut ExecIo) -> Option<CallRecord> {
        if let Some(toolbox) = self.parts.tools.as_ref().filter(|_| !job.grants.tools.is_empty()) {
            let run = toolbox.start_run(&job.grants.tools, Handle::current());
            io.tools = Some(Arc::clone(&run) as _);
            return Some(CallRecord::Own(run));
        }
        let supplied = Arc::new(RecordedTools::new(io.tools.take()?));
        io.tools = Some(Arc::clone(&supplied) as _);
        Some(CallRecord::Supplied(supplied))
    }
}

/// The calls of a run.
pub(crate) enum CallRecord {
    /// Calls of tools of the runner.
    Own(Arc<ToolRun>),
    /// Calls of tools that the caller of the run supplies.
    Supplied(Arc<RecordedTools>),
}

impl CallRecord {
    /// Adds the calls to the report of the run.
    pub(crate) fn report(&self, report: &mut RunReport) {
        match self {
            Self::Own(run) => run.report(report),
            Self::Supplied(tools) => tools.report(report),
        }
    }
}
