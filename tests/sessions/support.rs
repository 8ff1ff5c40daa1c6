//! Sessions in homes of their own.

use std::sync::{Arc, OnceLock};

use codebox::{AppDirs, Builder, Cell, Request, RunReport, Runner, Session};
use codebox_testkit::{HostProcess, Kit};
use tempfile::TempDir;
use tokio::runtime::Runtime;

pub fn kit() -> &'static Kit {
    static KIT: OnceLock<Kit> = OnceLock::new();
    KIT.get_or_init(|| {
        let kit = Kit::new(env!("CARGO_BIN_EXE_codebox"), env!("CARGO_TARGET_TMPDIR"));
        kit.prepare().expect("a prepared runtime");
        kit
    })
}

/// Home with prepared runtimes and a host process.
pub struct Home {
    host: HostProcess,
    folder: TempDir,
    executor: Runtime,
}

/// Place in which the interpreters of sessions run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    ThisProcess,
    Workers,
}

pub const PLACES: [Place; 2] = [Place::ThisProcess, Place::Workers];

impl Home {
    pub fn new() -> Self {
        let folder = kit().folder().expect("a directory");
        let host = kit().start_host(&folder.path().join("home")).expect("a host process");
        let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        Self { host, folder, executor: executor.expect("an executor") }
    }

    pub fn runner(&self, place: Place) -> Arc<Runner> {
        self.runner_with(place, |builder| builder)
    }

    pub fn runner_with(&self, place: Place, adjust: impl FnOnce(Builder) -> Builder) -> Arc<Runner> {
        let builder = adjust(codebox::builder(AppDirs::below(&self.folder.path().join("home"))));
        Arc::new(match place {
            Place::ThisProcess => builder.build(),
            Place::Workers => builder.workers(env!("CARGO_BIN_EXE_codebox")).build(),
        })
    }

    pub fn session(&self, place: Place, request: Request) -> TestSession<'_> {
        let session = self.wait(self.runner(place).session(request)).expect("a session");
        TestSession { home: self, session }
    }

    /// Returns the processes of the interpreters.
    pub fn workers(&self) -> Vec<i32> {
        let parent = format!("PPid:\t{}", self.host.pid().expect("a host process"));
        let pids = std::fs::read_dir("/proc").expect("a list of processes").flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let is_worker = |pid: &i32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let stdin = std::fs::read_link(format!("/proc/{pid}/fd/0")).unwrap_or_default();
            // The standard input of a worker with a session is a socket. Those without one wait for a run.
            status.lines().any(|line| line == parent) && stdin.to_string_lossy().starts_with("socket:")
        };
        pids.filter(is_worker).collect()
    }

    /// Waits for a future, in the executor of the home.
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.executor.block_on(future)
    }
}

/// Session whose cells are waited for.
pub struct TestSession<'h> {
    pub home: &'h Home,
    pub session: Session,
}

impl TestSession<'_> {
    #[track_caller]
    pub fn exec(&self, cell: impl Into<Cell>) -> RunReport {
        self.home.wait(self.session.exec(cell)).expect("a report")
    }

    /// Returns the output of a successful cell, and its value as text.
    #[track_caller]
    pub fn ok(&self, cell: &str) -> (String, Option<String>) {
        let report = self.exec(cell);
        let shown = (&report.outcome, report.stderr.to_text_lossy(), &report.error, report.is_kept());
        assert!(report.is_success() && report.is_kept(), "{cell}: {shown:#?}");
        (report.stdout.to_text_lossy(), value(&report))
    }

    /// Returns the value of a successful cell as text.
    #[track_caller]
    pub fn value(&self, cell: &str) -> String {
        self.ok(cell).1.expect("a value")
    }
}

/// Returns the value of a cell's last expression as text.
pub fn value(report: &RunReport) -> Option<String> {
    let last = report.results.iter().find(|result| result.role == codebox::ResultRole::Value)?;
    Some(last.data.get("text/plain")?.as_str()?.to_owned())
}
