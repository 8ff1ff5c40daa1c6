//! Benchmark of a warm host against its bars: all measurements alternate in one run and are reported as ratios.
//!
//! `cargo bench --bench ratios` measures. `-- --quick` shows that everything works. `-- --enforce` makes a missed bar a
//! failure. A wrong answer is always a failure.

use std::env;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[path = "../cases/mod.rs"]
mod cases;
mod memory;
#[path = "../cases/typescript.rs"]
mod program;
mod table;
mod threads;
mod typescript;
#[cfg(target_os = "linux")]
mod workers;

use cases::{Case, ColdBackend, GROUPBY, LOG, NUMPY, PRINT};
use table::{Row, Threshold, Verdict};

/// Amount of measuring.
#[derive(Debug, Clone, Copy)]
struct SampleCounts {
    /// Number of turns of every subject.
    rounds: usize,
    /// Runs in one turn.
    batch_size: usize,
    /// Number of live instances whose memory is measured.
    live_instances: usize,
}

const FULL: SampleCounts = SampleCounts { rounds: 40, batch_size: 25, live_instances: 32 };
const QUICK: SampleCounts = SampleCounts { rounds: 4, batch_size: 10, live_instances: 8 };

/// Operation that is measured in alternation with others.
struct Benchmark<'a> {
    operation: Box<dyn FnMut() + 'a>,
    times: Vec<Duration>,
}

impl<'a> Benchmark<'a> {
    fn new(operation: impl FnMut() + 'a) -> Self {
        Self { operation: Box::new(operation), times: Vec::new() }
    }

    fn run_batch(&mut self, runs: usize) {
        // The first run after another subject's turn is not timed, because it refills the caches.
        (self.operation)();
        for _ in 0..runs {
            let started = Instant::now();
            (self.operation)();
            self.times.push(started.elapsed());
        }
    }

    fn median(&mut self) -> Duration {
        self.times.sort_unstable();
        self.times[self.times.len() / 2]
    }
}

fn main() -> ExitCode {
    let samples = if cases::is_quick() { QUICK } else { FULL };
    let runner = Arc::new(cases::runner());
    let cold = ColdBackend::from_runner(&runner);

    let warm = |case: Case| {
        let (runner, job) = (&runner, case.job());
        Benchmark::new(move || {
            black_box(cases::run(runner, &job));
        })
    };
    let cold_start = |case: Case| {
        let (cold, job) = (&cold, case.job());
        Benchmark::new(move || {
            black_box(cold.run(&case, &job));
        })
    };
    let mut benchmarks = [
        Benchmark::new(cases::spawn_minimal_process),
        warm(PRINT),
        warm(NUMPY),
        warm(GROUPBY),
        warm(LOG),
        cold_start(PRINT),
        cold_start(NUMPY),
        cold_start(LOG),
    ];
    for _ in 0..samples.rounds {
        benchmarks.iter_mut().for_each(|benchmark| benchmark.run_batch(samples.batch_size));
    }
    let [process, print, numpy, groupby, log, cold_print, cold_numpy, cold_log] =
        benchmarks.each_mut().map(Benchmark::median);
    drop(benchmarks);

    let runs = samples.rounds * samples.batch_size;
    let ratio_row = |label: &'static str, threshold: Option<f64>, time: Duration| Row {
        label,
        threshold: threshold.map_or(Threshold::None, Threshold::AtMost),
        measured: Some(time.as_secs_f64() / process.as_secs_f64()),
        unit: "x",
        detail: format!("{time:.2?} vs {process:.2?}, p50 of {runs} each"),
    };
    let rows = [
        ratio_row(
            "fresh instance, `print(1)`, torn down and reset, vs spawning and reaping a process",
            Some(0.4),
            print,
        ),
        ratio_row("the same with numpy and pandas imported, small computation", Some(0.8), numpy),
        ratio_row("the same, groupby over a 1,000-row frame", Some(4.0), groupby),
        ratio_row(
            "fresh JavaScript instance, `console.log(1)`, torn down and reset, vs the same process",
            Some(0.15),
            log,
        ),
        ratio_row("`print(1)` on memory mapped afresh", None, cold_print),
        ratio_row("the same with numpy and pandas imported", None, cold_numpy),
        ratio_row("`console.log(1)` on memory mapped afresh", None, cold_log),
        threads::measure(&runner, samples.rounds, samples.batch_size),
        memory::measure(&runner, &memory::PYTHON, samples.live_instances),
        memory::measure(&runner, &memory::JAVASCRIPT, samples.live_instances),
        typescript::measure(samples.rounds),
    ];
    #[cfg(target_os = "linux")]
    let rows: Vec<Row> = rows.into_iter().chain(workers::measure(samples.rounds, samples.batch_size)).collect();
    print!("{}", table::render(&rows));
    let region_counts_by_image = [PRINT, NUMPY, LOG].map(|case| {
        let counts = runner.backend().region_counts(case.image).unwrap_or_default();
        format!("{} {counts:?}", case.image)
    });
    println!("\nregions (mapped, used again): {}", region_counts_by_image.join(", "));

    // The answers must still be right after the measurement.
    for case in [PRINT, NUMPY, GROUPBY, LOG] {
        cases::check(&case, &cases::run(&runner, &case.job()));
    }
    let missed = rows.iter().any(|row| row.verdict() == Verdict::Missed);
    if missed && env::args().any(|arg| arg == "--enforce") { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
