//! A home with a process that keeps sessions.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use codebox_testkit::{Codebox, ProcessResult};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::kit;

/// Home with a process that keeps sessions, which is ended when the value is dropped.
pub(crate) struct SessionHome(pub(crate) TempDir);

impl SessionHome {
    pub(crate) fn new() -> Self {
        let folder = kit().folder().expect("a directory");
        kit().share_runtimes(&folder.path().join("home")).expect("shared runtimes");
        Self(folder)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.0.path().join("home")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Codebox {
        kit().codebox().home(&self.home()).arg("session").args(args.iter().map(|arg| (*arg).to_owned()))
    }

    #[track_caller]
    pub(crate) fn run(&self, args: &[&str]) -> ProcessResult {
        self.command(args).run().expect("it runs")
    }

    /// Returns the output of a successful command.
    #[track_caller]
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {}{}", ran.stdout_text(), ran.stderr_text());
        ran.stdout_text()
    }

    #[track_caller]
    pub(crate) fn new_session(&self) -> String {
        let id = self.ok(&["new"]);
        assert!(id.ends_with('\n') && id.trim().chars().all(|c| c.is_ascii_hexdigit()), "{id:?}");
        id.trim().to_owned()
    }

    #[track_caller]
    pub(crate) fn exec(&self, id: &str, code: &str) -> String {
        self.ok(&["exec", id, "-c", code])
    }

    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.run(args).stdout_text()).expect("a JSON document")
    }

    /// Returns the number of the process that keeps the sessions.
    pub(crate) fn keeper(&self) -> i32 {
        let home = self.home();
        let is_keeper = |pid: &i32| {
            let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
            let arguments = read("cmdline");
            let home = format!("CODEBOX_HOME={}\0", home.display());
            arguments.windows(13).any(|part| part == b"keep-sessions")
                && String::from_utf8_lossy(&read("environ")).contains(&home)
        };
        let entries = fs::read_dir("/proc").expect("a list of processes").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.into_iter().find(is_keeper).expect("a process that keeps sessions")
    }

    pub(crate) fn saved(&self, id: &str) -> PathBuf {
        self.home().join("cache/sessions/saved").join(id)
    }
}

impl Drop for SessionHome {
    fn drop(&mut self) {
        let _ = self.command(&["end"]).run();
    }
}

pub(crate) fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).expect("a process number"), Signal::KILL).expect("it is ours");
    let start = Instant::now();
    while Path::new(&format!("/proc/{pid}/exe")).exists() {
        assert!(start.elapsed() < Duration::from_secs(20), "{pid} does not end");
        thread::sleep(Duration::from_millis(5));
    }
}
