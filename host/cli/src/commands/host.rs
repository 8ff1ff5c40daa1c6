//! `codebox host`.

use codebox_core::RunnerError;
use serde::Serialize;

use crate::answer;
use crate::args::HostCommand;
use crate::host::{HostControl, HostStatus};
use crate::messages::Messages;

/// Exit status of `status` if there is no host process.
const NOT_RUNNING: u8 = 1;

/// State of the host process as JSON.
#[derive(Serialize)]
struct Document {
    running: bool,
    pid: Option<u32>,
    runs: Option<u64>,
    active: Option<u32>,
    age_seconds: Option<u64>,
    idle_limit_seconds: Option<u64>,
}

pub(super) fn host(command: HostCommand, messages: Messages, control: &dyn HostControl) -> Result<u8, RunnerError> {
    match command {
        HostCommand::Status { json } => {
            let status = control.status()?;
            let printed = if json { answer::print_json(&document(status))? } else { answer::print(&line(status))? };
            Ok(if status.is_some() { printed } else { NOT_RUNNING })
        }
        HostCommand::Start => {
            let text = if control.start()? { "the host process runs" } else { "the host process runs already" };
            messages.note(text);
            Ok(0)
        }
        HostCommand::Stop => {
            let text = if control.stop()? { "the host process stops" } else { "the host process does not run" };
            messages.note(text);
            Ok(0)
        }
    }
}

fn line(status: Option<HostStatus>) -> String {
    let Some(HostStatus { pid, runs, active, age, idle_limit }) = status else {
        return "the host process does not run\n".to_owned();
    };
    let idle = idle_limit.map_or_else(
        || "does not end by itself".to_owned(),
        |limit| format!("ends after {} without a run", humantime::format_duration(limit)),
    );
    let age = humantime::format_duration(age);
    format!(
        "the host process {pid} has run for {age}, accepted {runs} runs, {active} of them in progress, and {idle}\n"
    )
}

fn document(status: Option<HostStatus>) -> Document {
    Document {
        running: status.is_some(),
        pid: status.map(|status| status.pid),
        runs: status.map(|status| status.runs),
        active: status.map(|status| status.active),
        age_seconds: status.map(|status| status.age.as_secs()),
        idle_limit_seconds: status.and_then(|status| status.idle_limit).map(|limit| limit.as_secs()),
    }
}
