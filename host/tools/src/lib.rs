//! Host tools: functions of the host that programs call by name, with JSON in and out.
//!
//! A [`Toolbox`] has the tools of a runner. A run is granted some of them by name and calls them through a [`ToolRun`], which checks
//! each call: the grant, the schemas of input and output, the approval, and the budgets of the run. Inputs come from programs and
//! are not trusted.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod calls;
mod command;
mod recorded;
mod run;
mod schema;
mod tool;
mod toolbox;

pub use codebox_core::Approval;
pub use command::{end_of, output_of};
pub use recorded::RecordedTools;
pub use run::ToolRun;
pub use schema::SchemaError;
pub use tool::{CallFacts, CallLimits, Tool, ToolError};
pub use toolbox::{Approver, Decision, ToolBudgets, ToolRequest, Toolbox};
