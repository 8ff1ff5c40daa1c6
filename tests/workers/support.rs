//! Runners with workers in homes of their own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use codebox::{AppDirs, OutputSink, Runner};
use codebox_testkit::{HostProcess, Kit};
use tempfile::TempDir;

/// Maximum time for a process to reach a state. It is far longer than needed.
const STATE_TIMEOUT: Duration = Duration::from_secs(20);

fn kit() -> &'static Kit {
    static KIT: OnceLock<Kit> = OnceLock::new();
    KIT.get_or_init(|| {
        let kit = Kit::new(env!("CARGO_BIN_EXE_codebox"), env!("CARGO_TARGET_TMPDIR"));
        kit.prepare().expect("a prepared runtime");
        kit
    })
}

/// Home with prepared runtimes.
pub struct Home {
    /// Stopped when the value is dropped, before its home is removed.
    pub host: Option<HostProcess>,
    pub folder: TempDir,
}

impl Home {
    /// Creates a home with a running host process.
    pub fn with_host() -> Self {
        let folder = kit().folder().expect("a directory");
        let host = kit().start_host(&folder.path().join("home")).expect("a host process");
        Self { folder, host: Some(host) }
    }

    /// Creates a home whose configuration disables the host process.
    pub fn without_host() -> Self {
        let folder = kit().folder().expect("a directory");
        let home = folder.path().join("home");
        kit().share_runtimes(&home).expect("shared runtimes");
        fs::create_dir_all(home.join("config")).expect("a directory");
        fs::write(home.join("config/config.toml"), "[host]\nenabled = false\n").expect("a file");
        Self { folder, host: None }
    }

    pub fn dirs(&self) -> AppDirs {
        AppDirs::below(&self.folder.path().join("home"))
    }

    /// Returns a runner whose guests run in workers.
    pub fn runner(&self) -> Runner {
        codebox::builder(self.dirs()).workers(env!("CARGO_BIN_EXE_codebox")).build()
    }

    /// Returns a runner whose guests run in this process.
    pub fn runner_in_this_process(&self) -> Runner {
        codebox::builder(self.dirs()).build()
    }

    /// Creates a directory for a job.
    pub fn dir(&self, name: &str) -> PathBuf {
        let dir = self.folder.path().canonicalize().expect("it exists").join(name);
        fs::create_dir_all(&dir).expect("a directory");
        dir
    }

    /// Returns the number of private directories of processes. An idle worker has one as well.
    pub fn scratch_entries(&self) -> usize {
        fs::read_dir(self.dirs().cache.join("scratch")).into_iter().flatten().count()
    }

    /// Returns the processes that run a job of this home.
    pub fn workers(&self) -> Vec<i32> {
        let parent = match &self.host {
            Some(host) => host.pid().expect("a host process"),
            None => i32::try_from(std::process::id()).expect("a process number"),
        };
        // An idle worker of the host process waits for a run at a socket, and has no other process below it.
        children(parent).into_iter().filter(|pid| is_running_job(*pid)).collect()
    }
}

fn children(parent: i32) -> Vec<i32> {
    let processes = fs::read_dir("/proc").expect("a list of processes").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |pid: &i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line == format!("PPid:\t{parent}"))
    };
    pids.filter(is_child).collect()
}

/// Returns true for a process whose standard input is a socket, as that of a worker with a job.
fn is_running_job(pid: i32) -> bool {
    fs::read_link(format!("/proc/{pid}/fd/0")).is_ok_and(|stdin| stdin.to_string_lossy().starts_with("socket:"))
}

/// Waits until a condition holds.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < STATE_TIMEOUT, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Output sink that keeps all data.
#[derive(Clone, Default)]
pub struct OutputBuffer(Arc<Mutex<Vec<u8>>>);

impl OutputSink for OutputBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(())
    }
}

impl OutputBuffer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// Returns the content of a file below a directory.
pub fn content(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join(name)).expect("a file")
}
