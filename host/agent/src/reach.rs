//! The processes that belong to a job.

use std::collections::HashMap;
use std::fs;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, kill_process_group, pidfd_open, pidfd_send_signal, wait,
};

/// Processes that the agent ends with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All processes of the container, whose first process is the agent.
    Container,
    /// The descendants of the agent, in a container that has other processes. The agent is their subreaper, so a process stays its
    /// descendant when its parent ends.
    Descendants,
}

impl Reach {
    /// Sends a signal to every process except the agent.
    pub(crate) fn signal(self, signal: Signal) {
        match self {
            // This is `kill(-1)`, which signals every process and not a process group.
            Self::Container => {
                let _ = kill_process_group(Pid::INIT, signal);
            }
            Self::Descendants => descendants().into_iter().for_each(|found| found.signal(signal)),
        }
    }

    pub(crate) fn kill(self) {
        self.signal(Signal::KILL);
    }

    /// Kills every process except the agent, and returns when all of them have ended.
    pub(crate) fn kill_and_reap(self) {
        loop {
            self.kill();
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => std::thread::sleep(std::time::Duration::from_micros(200)),
                Err(_) => return,
            }
        }
    }
}

/// A process at the time of its discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    pid: Pid,
    /// Time of its start, in ticks since the start of the machine.
    started: u64,
}

impl Found {
    /// Sends a signal, unless the number belongs to another process by now.
    fn signal(self, signal: Signal) {
        let Ok(process) = pidfd_open(self.pid, PidfdFlags::empty()) else {
            // Kernels before 5.3 have none.
            if stat(self.pid).is_some_and(|(_, started)| started == self.started) {
                let _ = kill_process(self.pid, signal);
            }
            return;
        };
        if stat(self.pid).is_some_and(|(_, started)| started == self.started) {
            let _ = pidfd_send_signal(process, signal);
        }
    }
}

/// Returns all descendants of this process.
fn descendants() -> Vec<Found> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut children: HashMap<i32, Vec<Found>> = HashMap::new();
    for pid in numbers.filter_map(Pid::from_raw) {
        if let Some((parent, started)) = stat(pid) {
            children.entry(parent).or_default().push(Found { pid, started });
        }
    }
    let mut all = Vec::new();
    let mut parents = vec![getpid().as_raw_nonzero().get()];
    while let Some(parent) = parents.pop() {
        // Removed, so that a number that was assigned twice makes no cycle.
        for child in children.remove(&parent).unwrap_or_default() {
            parents.push(child.pid.as_raw_nonzero().get());
            all.push(child);
        }
    }
    all
}

/// Returns the parent of a process and the time of its start.
fn stat(pid: Pid) -> Option<(i32, u64)> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name of the program, in parentheses, can contain any character.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let parent = fields.nth(1)?.parse().ok()?;
    Some((parent, fields.nth(17)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn finds_descendants_of_every_generation() {
        let mut shell = Command::new("sh").args(["-c", "sleep 60 & sleep 60 & wait"]).spawn().expect("a shell");
        let shell_pid = Pid::from_child(&shell);
        let of_shell = || {
            let all = descendants();
            let is_sleep = |found: &&Found| stat(found.pid).is_some_and(|(p, _)| p == shell_pid.as_raw_nonzero().get());
            (all.iter().any(|found| found.pid == shell_pid), all.iter().filter(is_sleep).copied().collect::<Vec<_>>())
        };
        let mut sleeps = of_shell().1;
        for _ in 0..500 {
            sleeps = of_shell().1;
            if sleeps.len() == 2 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(of_shell().0 && sleeps.len() == 2, "{sleeps:?}");
        // A process with another start has another number's owner.
        Found { started: sleeps[0].started + 1, ..sleeps[0] }.signal(Signal::KILL);
        assert_eq!(of_shell().1.len(), 2);
        sleeps.iter().for_each(|found| found.signal(Signal::KILL));
        assert!(shell.wait().expect("the shell ends").success());
    }
}
