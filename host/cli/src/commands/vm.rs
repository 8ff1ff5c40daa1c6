//! `codebox vm`.

#[cfg(unix)]
use std::io::IsTerminal as _;

#[cfg(unix)]
use codebox_core::WindowSize;
use codebox_core::{RunnerError, exit};
use serde_json::json;

use crate::answer;
use crate::args::VmCommand;
use crate::messages::Messages;
use crate::progress::progress;
use crate::render::Escaped;
#[cfg(unix)]
use crate::terminal::{RawTerminal, size};
use crate::vm::{MachineControl, MachineStatus, RunningMachine};

/// Exit status of `status` if the machine does not run.
const NOT_RUNNING: u8 = 1;

pub(super) fn vm(command: VmCommand, messages: Messages, control: &dyn MachineControl) -> Result<u8, RunnerError> {
    match command {
        VmCommand::Up => {
            let socket = control.up(&*progress(messages))?;
            messages.note(format_args!("the virtual machine runs; its Podman is at {}", socket.display()));
            Ok(0)
        }
        VmCommand::Install { file } => {
            let dir = control.install(&file)?;
            messages.note(format_args!("the image of virtual machines is at {}", dir.display()));
            Ok(0)
        }
        VmCommand::Down => {
            let text = if control.down()? { "the virtual machine is off" } else { "the virtual machine does not run" };
            messages.note(text);
            Ok(0)
        }
        VmCommand::Status { json } => {
            let status = control.status()?;
            let printed = if json { answer::print_json(&document(&status))? } else { answer::print(&text(&status))? };
            Ok(if status.state == "running" { printed } else { NOT_RUNNING })
        }
        VmCommand::Shell { root, words } => {
            let is_shell = words.is_empty();
            let (words, has_terminal) = if is_shell { shell() } else { (words, false) };
            let mut terminal = None;
            // Interrupts end the command until then.
            let mut has_started = || terminal = has_terminal.then(pass_keys);
            let status = control.run(words, root, &mut has_started, &*progress(messages))?;
            drop(terminal);
            Ok(u8::try_from(status).unwrap_or(exit::FAILURE))
        }
        VmCommand::Reset => {
            let text = match control.reset()? {
                true => "the virtual machine is removed, with the images and containers on its disk",
                false => "there is no virtual machine",
            };
            messages.note(text);
            Ok(0)
        }
        VmCommand::Logs => {
            let log = control.log()?;
            let lines: String = log.lines().map(|line| format!("{}\n", Escaped(line))).collect();
            answer::print(&lines)
        }
    }
}

/// Returns the command of a shell, and true if it has a terminal, which `script` of util-linux gives it, of the size of that of this process.
#[cfg(unix)]
fn shell() -> (Vec<String>, bool) {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return (PLAIN_SHELL.map(str::to_owned).to_vec(), false);
    }
    let WindowSize { rows, columns } = size();
    let shell = format!("stty rows {rows} cols {columns}; TERM=xterm-256color exec bash -l");
    (["script", "-q", "-e", "-c", &shell, "/dev/null"].map(str::to_owned).to_vec(), true)
}

#[cfg(not(unix))]
fn shell() -> (Vec<String>, bool) {
    (PLAIN_SHELL.map(str::to_owned).to_vec(), false)
}

/// Makes the terminal of this process pass all keys on until the value is dropped.
#[cfg(unix)]
fn pass_keys() -> RawTerminal {
    RawTerminal::enter()
}

#[cfg(not(unix))]
fn pass_keys() {}

/// Command of a shell that reads its commands from standard input.
const PLAIN_SHELL: [&str; 2] = ["bash", "-l"];

fn text(status: &MachineStatus) -> String {
    let MachineStatus { provider, state, reason, running } = status;
    let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let mut text = format!("the virtual machine of {provider} is {state}{reason}\n");
    if let Some(RunningMachine { uptime, memory, disk, uses, shared }) = running {
        let uptime = humantime::format_duration(std::time::Duration::from_secs(uptime.as_secs()));
        let mib = |bytes: u64| bytes >> 20;
        text.push_str(&format!("it has run for {uptime}, and has {uses} uses\n"));
        for (name, [all, free]) in [("memory", memory), ("disk", disk)] {
            text.push_str(&format!("{name}: {} MiB, of which {} MiB are available\n", mib(*all), mib(*free)));
        }
        for dir in shared {
            text.push_str(&format!("it sees {}\n", Escaped(&dir.display().to_string())));
        }
    }
    text
}

fn document(status: &MachineStatus) -> serde_json::Value {
    let MachineStatus { provider, state, reason, running } = status;
    let running = running.as_ref().map(|RunningMachine { uptime, memory, disk, uses, shared }| {
        json!({
            "uptime_ms": u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX),
            "memory_bytes": memory[0],
            "memory_available_bytes": memory[1],
            "disk_bytes": disk[0],
            "disk_available_bytes": disk[1],
            "uses": uses,
            "shared": shared.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>(),
        })
    });
    json!({ "provider": provider, "state": state, "reason": reason, "running": running })
}
