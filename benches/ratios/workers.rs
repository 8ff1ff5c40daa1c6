//! Jobs of the library in processes of their own.

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use codebox::{AppDirs, Runner};

use super::Benchmark;
use super::cases::{self, Case, NUMPY, PRINT};
use super::table::{Row, Threshold};

/// The installed command.
const CODEBOX: &str = env!("CARGO_BIN_EXE_codebox");

/// Maximum time for the start of the host process.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Compares jobs in workers of the host process with spawning a process.
pub fn measure(rounds: usize, batch_size: usize) -> [Row; 2] {
    let runner = codebox::builder(AppDirs::below(&cases::home())).workers(CODEBOX).build();
    let host = Host::start();
    let mut benchmarks = [
        Benchmark::new(cases::spawn_minimal_process),
        Benchmark::new(|| drop(black_box(run(&runner, &PRINT)))),
        Benchmark::new(|| drop(black_box(run(&runner, &NUMPY)))),
    ];
    let before = host.runs();
    for _ in 0..rounds {
        benchmarks.iter_mut().for_each(|benchmark| benchmark.run_batch(batch_size));
    }
    let [process, print, numpy] = benchmarks.each_mut().map(Benchmark::median);
    drop(benchmarks);
    let runs = rounds * batch_size;
    assert!(host.runs() >= before + 2 * runs as u64, "the host process served the jobs");
    for case in [PRINT, NUMPY] {
        cases::check(&case, &run(&runner, &case));
    }
    let row = |label, time: Duration| Row {
        label,
        threshold: Threshold::None,
        measured: Some(time.as_secs_f64() / process.as_secs_f64()),
        unit: "x",
        detail: format!("{time:.2?} vs {process:.2?}, p50 of {runs} each"),
    };
    [
        row("`print(1)` of the library in a process of its own, vs spawning and reaping a process", print),
        row("the same with numpy and pandas imported, small computation", numpy),
    ]
}

fn run(runner: &Runner, case: &Case) -> codebox::RunReport {
    runner.run(case.job()).expect("the job runs")
}

/// The host process, which is stopped when the value is dropped.
struct Host;

impl Host {
    fn start() -> Self {
        let started = Instant::now();
        while !command(&["host", "start"]).stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
            assert!(started.elapsed() < START_TIMEOUT, "the host process starts");
        }
        Self
    }

    /// Returns the number of runs that it has served.
    fn runs(&self) -> u64 {
        let status = command(&["host", "status", "--json"]).output().expect("the command runs").stdout;
        let status: serde_json::Value = serde_json::from_slice(&status).expect("a JSON document");
        status["runs"].as_u64().expect("the host process runs")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = command(&["host", "stop"]).stdout(Stdio::null()).status();
    }
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(CODEBOX);
    command.args(args).env("CODEBOX_HOME", cases::home()).env("CODEBOX_HOST", "on").stderr(Stdio::null());
    command
}
