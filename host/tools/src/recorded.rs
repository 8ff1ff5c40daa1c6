//! Tools of another process, whose calls are recorded.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codebox_core::{BoxFuture, Effects, RunReport, RunTools, ToolCalls, ToolDescription, ToolResult};

use crate::calls::CallList;

/// The tools of a run that another process supplies, and the record of their calls.
pub struct RecordedTools {
    tools: RunTools,
    list: Arc<Mutex<CallList>>,
}

impl RecordedTools {
    /// Starts the record of a run with these tools.
    #[must_use]
    pub fn new(tools: RunTools) -> Self {
        Self { tools, list: Arc::default() }
    }

    /// Adds the calls to the report of the run.
    pub fn report(&self, report: &mut RunReport) {
        (report.tool_calls, report.tool_calls_dropped) = lock(&self.list).all();
    }
}

impl ToolCalls for RecordedTools {
    fn list(&self) -> Vec<ToolDescription> {
        self.tools.list()
    }

    fn call(&self, name: &str, input: Vec<u8>, effects: Effects) -> BoxFuture<'static, ToolResult> {
        let list = Arc::clone(&self.list);
        let number = lock(&list).start(name, &input);
        let call = self.tools.call(name, input, effects);
        Box::pin(async move {
            let result = call.await;
            lock(&list).end(number, &result);
            result
        })
    }
}

fn lock(list: &Mutex<CallList>) -> MutexGuard<'_, CallList> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}
