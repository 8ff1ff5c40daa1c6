//! Measurements of sessions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use codebox::{CancelToken, Cell, CellIo, Job, RunReport, SessionContainer};
use codebox_sessions::{Client, Place};

use super::table::{Row, Threshold};

/// Amount of measuring.
#[derive(Debug, Clone, Copy)]
pub struct SampleCounts {
    cells: usize,
    states: usize,
    forks: u32,
    parked: usize,
}

pub const FULL: SampleCounts = SampleCounts { cells: 1000, states: 40, forks: 100, parked: 1000 };
pub const QUICK: SampleCounts = SampleCounts { cells: 50, states: 4, forks: 10, parked: 20 };

/// Session with a frame of 10 MB.
const FRAME: &str = "\
import numpy as np, pandas as pd
df = pd.DataFrame({f'c{i}': np.arange(131072, dtype=float) + i for i in range(10)})
float(df.to_numpy().sum())";

/// A question about the frame, and its answer.
const QUESTION: &str = "float(df['c9'].iloc[-1])";
const ANSWER: &str = "131080.0";

/// Bytes of a mebibyte.
const MIB: f64 = (1 << 20) as f64;

/// The process that keeps sessions, in a home of its own. It is ended when the value is dropped.
struct Keeper {
    home: PathBuf,
    client: Client,
}

/// Returns the home with prepared runtimes.
pub fn home() -> PathBuf {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/codebox-home");
    std::env::var_os("CODEBOX_HOME").map_or(home, PathBuf::from)
}

impl Keeper {
    fn start() -> Self {
        let home = home();
        let list = || {
            Command::new(env!("CARGO_BIN_EXE_codebox")).args(["session", "list"]).env("CODEBOX_HOME", &home).output()
        };
        let listed = list().expect("the command runs");
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        let place = Place::below(&home.join("cache"));
        let client = Client::connect(&place).expect("it can be reached").expect("it runs");
        Self { home, client }
    }

    fn create(&mut self) -> String {
        self.client.create(Job::python(""), SessionContainer::default()).expect("a session")
    }

    fn exec(&mut self, id: &str, text: &str) -> RunReport {
        let io = CellIo { cancel: &CancelToken::new(), tools: None, suspends: None, output: &mut |_, _| {} };
        self.client.exec(id, Cell::from(text), io).expect("a report")
    }

    fn value(&mut self, id: &str, text: &str) -> String {
        let report = self.exec(id, text);
        assert!(report.is_success() && report.is_kept(), "{:?} {}", report.outcome, report.stderr.to_text_lossy());
        let value =
            report.results.first().and_then(|result| result.data.get("text/plain")).and_then(|text| text.as_str());
        value.unwrap_or_default().to_owned()
    }

    /// Returns the resident memory of the process and of its workers in bytes, shared pages in proportion.
    fn resident(&self) -> (u64, u64) {
        let (mut own, mut workers) = (0, 0);
        let all = processes(&self.home);
        // Workers that the host process has forked have its command line.
        let is_forked =
            |process: &Process| all.iter().any(|other| other.pid == process.parent && other.command == "serve-runs");
        for process in &all {
            let memory = proportional_size(process.pid);
            match process.command.as_str() {
                "keep-sessions" => own += memory,
                "run-job" => workers += memory,
                "serve-runs" if is_forked(process) => workers += memory,
                _ => {}
            }
        }
        (own, workers)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        for session in self.client.list().unwrap_or_default() {
            let _ = self.client.stop(&session.id);
        }
        let _ = self.client.end();
    }
}

struct Process {
    pid: u32,
    parent: u32,
    command: String,
}

/// Returns the processes of codebox in a home.
fn processes(home: &Path) -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("a list of processes").flatten();
    let found = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let words: Vec<String> =
            arguments.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let home = home.display().to_string();
        let belongs = words.iter().any(|word| word.starts_with(&home))
            || String::from_utf8_lossy(&environment).contains(&format!("CODEBOX_HOME={home}\0"));
        let command = words.get(1)?.clone();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())?;
        belongs.then_some(Process { pid, parent, command })
    });
    found.collect()
}

/// Returns the resident memory of a process in bytes, shared pages in proportion.
fn proportional_size(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).unwrap_or(0) << 10
}

pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn timed(count: usize, mut operation: impl FnMut() -> Duration) -> Duration {
    // The first one is not counted.
    operation();
    median((0..count).map(|_| operation()).collect())
}

pub fn row(label: &'static str, bar: Option<f64>, time: Duration, detail: String) -> Row {
    let threshold = bar.map_or(Threshold::None, Threshold::AtMost);
    Row { label, threshold, measured: Some(time.as_secs_f64() * 1e3), unit: " ms", detail }
}

pub fn rows(samples: SampleCounts) -> Vec<Row> {
    let SampleCounts { cells, states, forks, parked } = samples;
    let agents = super::agents::rows(cells);
    let mut keeper = Keeper::start();
    let id = keeper.create();
    let cell = timed(cells, || {
        let started = Instant::now();
        assert_eq!(keeper.value(&id, "1+1"), "2");
        started.elapsed()
    });
    let process = timed(cells.min(200), || {
        let started = Instant::now();
        let status =
            Command::new("/bin/true").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(status.is_ok_and(|status| status.success()), "the smallest process runs");
        started.elapsed()
    });
    let frame = keeper.create();
    keeper.value(&frame, FRAME);
    let fork = timed(states, || {
        // Without a cell in between, the state would be saved already.
        keeper.value(&frame, "0");
        let started = Instant::now();
        let forked = keeper.client.fork(&frame, 1).expect("a fork").remove(0);
        assert_eq!(keeper.value(&forked, QUESTION), ANSWER);
        let time = started.elapsed();
        keeper.client.stop(&forked).expect("it is stopped");
        time
    });
    let checkpoint = timed(states, || {
        keeper.value(&frame, "0");
        let started = Instant::now();
        keeper.client.checkpoint(&frame, "c").expect("a checkpoint");
        started.elapsed()
    });
    let size = pages_of(&keeper.home, &frame);
    let resume = timed(states, || {
        keeper.client.park(&frame).expect("it is parked");
        let started = Instant::now();
        assert_eq!(keeper.value(&frame, QUESTION), ANSWER);
        started.elapsed()
    });
    let (_, before) = keeper.resident();
    let forked = keeper.client.fork(&frame, forks).expect("forks");
    for one in &forked {
        assert_eq!(keeper.value(one, QUESTION), ANSWER);
    }
    let (_, after) = keeper.resident();
    forked.iter().for_each(|one| keeper.client.stop(one).expect("it is stopped"));
    for _ in 0..parked {
        let one = keeper.create();
        keeper.value(&one, "x = 1; x");
        keeper.client.park(&one).expect("it is parked");
    }
    let (own, _) = keeper.resident();
    let count = |count: usize| format!("p50 of {count}");
    let memory = |label, bar: f64, bytes: f64, detail: String| Row {
        label,
        threshold: Threshold::AtMost(bar),
        measured: Some(bytes / MIB),
        unit: " MiB",
        detail,
    };
    let mut rows = vec![
        row("cell `1+1` in a live session, over the socket", Some(0.5), cell, count(cells)),
        row("spawning and reaping a process, for comparison", None, process, count(cells.min(200))),
        row(
            "fork of a session with numpy, pandas and a frame of 10 MB, to its first answer",
            Some(5.0),
            fork,
            count(states),
        ),
        row(
            "checkpoint of the same",
            Some(30.0),
            checkpoint,
            format!("{}, {:.1} MiB of pages", count(states), size as f64 / MIB),
        ),
        row("first answer of the same when it was parked", Some(10.0), resume, count(states)),
        memory(
            "memory of a live fork of it",
            3.0,
            after.saturating_sub(before) as f64 / f64::from(forks),
            format!("{forks} forks, shared pages in proportion"),
        ),
        memory("memory of the process with parked sessions", 20.0, own as f64, format!("{parked} parked sessions")),
    ];
    rows.extend(agents);
    rows
}

/// Returns the bytes of the pages of a session's checkpoints.
fn pages_of(home: &Path, id: &str) -> u64 {
    let dir = home.join("cache/sessions/saved").join(id);
    let inner = fs::read_dir(dir).into_iter().flatten().flatten();
    inner.filter_map(|entry| Some(fs::metadata(entry.path().join("pages.bin")).ok()?.len())).max().unwrap_or(0)
}
