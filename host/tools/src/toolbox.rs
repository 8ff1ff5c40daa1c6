//! The tools of a runner.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use codebox_core::{Approval, BoxFuture, ToolName};
use serde_json::Value;
use tokio::runtime::Handle;

use crate::run::ToolRun;
use crate::tool::{Tool, ToolError};

/// Budgets of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolBudgets {
    /// Maximum number of calls.
    pub calls: u64,
    /// Maximum number of bytes of all inputs and outputs together, as JSON text.
    pub bytes: u64,
    /// Maximum wall time of one call, including its approval.
    pub time: Duration,
}

impl ToolBudgets {
    /// 1,000 calls, 64 MiB, and a minute for each call.
    pub const DEFAULT: Self = Self { calls: 1_000, bytes: 64 << 20, time: Duration::from_secs(60) };
}

impl Default for ToolBudgets {
    /// Returns [`DEFAULT`](Self::DEFAULT).
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Call that needs approval.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRequest {
    /// Tool.
    pub tool: ToolName,
    /// Input, which matches the schema of the tool. It comes from the program.
    pub input: Value,
}

/// Decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The call is made.
    Approved,
    /// The call fails.
    Denied,
    /// The cell is suspended until the call is decided. Only cells of sessions that another process keeps can be; otherwise the call fails.
    Suspended,
}

impl From<bool> for Decision {
    fn from(is_approved: bool) -> Self {
        if is_approved { Self::Approved } else { Self::Denied }
    }
}

/// Function that decides if a call is made.
pub type Approver = dyn Fn(ToolRequest) -> BoxFuture<'static, Decision> + Send + Sync;

/// Tools that runs can be granted by name.
#[derive(Clone, Default)]
pub struct Toolbox {
    pub(crate) tools: BTreeMap<ToolName, Tool>,
    pub(crate) budgets: ToolBudgets,
    pub(crate) approver: Option<Arc<Approver>>,
}

impl Toolbox {
    /// Creates a toolbox.
    ///
    /// # Errors
    /// Returns an error if two tools have the same name.
    pub fn new(tools: impl IntoIterator<Item = Tool>) -> Result<Self, ToolError> {
        let mut toolbox = Self::default();
        for tool in tools {
            let name = tool.name().clone();
            if toolbox.tools.insert(name.clone(), tool).is_some() {
                return Err(ToolError::Duplicate(name));
            }
        }
        Ok(toolbox)
    }

    /// Sets the budgets of each run. In a session they are those of each cell.
    #[must_use]
    pub fn with_budgets(self, budgets: ToolBudgets) -> Self {
        Self { budgets, ..self }
    }

    /// Sets the function that decides calls of tools with [`Approval::Ask`](crate::Approval::Ask), with a [`Decision`] or with true for
    /// approval.
    #[must_use]
    pub fn with_approver<F, R>(self, approver: F) -> Self
    where
        F: Fn(ToolRequest) -> R + Send + Sync + 'static,
        R: Future<Output: Into<Decision>> + Send + 'static,
    {
        let approver = move |request| {
            let decision = approver(request);
            Box::pin(async move { decision.await.into() }) as BoxFuture<'static, Decision>
        };
        Self { approver: Some(Arc::new(approver)), ..self }
    }

    /// Returns a tool.
    #[must_use]
    pub fn get(&self, name: &ToolName) -> Option<&Tool> {
        self.tools.get(name)
    }

    /// Returns true if there is a tool of this name.
    #[must_use]
    pub fn contains(&self, name: &ToolName) -> bool {
        self.tools.contains_key(name)
    }

    /// Returns true if calls of one of the tools need an approval.
    #[must_use]
    pub fn has_questions(&self) -> bool {
        self.tools.values().any(|tool| tool.approval == Approval::Ask)
    }

    /// Returns the names of all tools.
    pub fn names(&self) -> impl Iterator<Item = &ToolName> {
        self.tools.keys()
    }

    /// Starts the record of a run with these tools. Calls run in `executor`.
    #[must_use]
    pub fn start_run(self: &Arc<Self>, granted: &[ToolName], executor: Handle) -> Arc<ToolRun> {
        Arc::new(ToolRun::new(Arc::clone(self), granted.iter().cloned().collect(), executor))
    }
}
