//! Process of a server.

use std::io;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::ServerLog;

/// Time in which a server ends after its connection, before it is killed.
const END_TIMEOUT: Duration = Duration::from_millis(500);

/// Interval at which that is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// Process of a server and its process group, which end with this value.
pub(super) struct ServerProcess(Child);

impl ServerProcess {
    /// Starts a server. Returns its standard input and output too.
    pub(super) fn start(words: &[String], log: ServerLog) -> io::Result<(Self, ChildStdin, ChildStdout)> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let (program, args) = words.split_first().ok_or_else(invalid)?;
        let mut command = Command::new(program);
        command.args(args).kill_on_drop(true).stdin(Stdio::piped()).stdout(Stdio::piped());
        // A signal of the terminal is for this process, which ends the program first.
        #[cfg(unix)]
        command.process_group(0);
        command.stderr(match log {
            ServerLog::Shown => Stdio::inherit(),
            ServerLog::Hidden => Stdio::null(),
        });
        let mut process = Self(command.spawn()?);
        let (input, output) = (process.0.stdin.take(), process.0.stdout.take());
        input.zip(output).map(|(input, output)| (process, input, output)).ok_or_else(invalid)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The number is that of the group also when the process itself has ended: it has not been waited for.
        let Some(id) = self.0.id() else { return };
        let until = Instant::now() + END_TIMEOUT;
        while !has_ended(id) && Instant::now() < until {
            thread::sleep(CHECK_INTERVAL);
        }
        // A command like `npx` starts the server as a child, which may still run.
        kill_group(id);
    }
}

/// Returns true if a child has ended, without waiting for it.
#[cfg(unix)]
fn has_ended(id: u32) -> bool {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

    let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) else { return true };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
}

#[cfg(unix)]
fn kill_group(id: u32) {
    use rustix::process::{Pid, Signal, kill_process_group};

    if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        // It may be empty.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

#[cfg(not(unix))]
fn has_ended(_id: u32) -> bool {
    true
}

#[cfg(not(unix))]
fn kill_group(_id: u32) {}
