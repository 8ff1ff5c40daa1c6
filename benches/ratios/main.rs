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

use cases::{Case, Cold, GROUPBY, LOG, NUMPY, PRINT};
use table::{Bar, Row, Verdict};

/// Amount of measuring.
#[derive(Debug, Clone, Copy)]
struct Effort {
    /// Number of turns of every subject.
    rounds: usize,
    /// Runs in one turn.
    turn: usize,
    /// Number of live instances whose memory is measured.
    live: usize,
}

const FULL: Effort = Effort { rounds: 40, turn: 25, live: 32 };
const QUICK: Effort = Effort { rounds: 4, turn: 10, live: 8 };

/// Operation that is measured in alternation with others.
struct Subject<'a> {
    work: Box<dyn FnMut() + 'a>,
    times: Vec<Duration>,
}

impl<'a> Subject<'a> {
    fn new(work: impl FnMut() + 'a) -> Self {
        Self { work: Box::new(work), times: Vec::new() }
    }

    fn take_turn(&mut self, runs: usize) {
        // The first run after another subject's turn is not timed, because it refills the caches.
        (self.work)();
        for _ in 0..runs {
            let began = Instant::now();
            (self.work)();
            self.times.push(began.elapsed());
        }
    }

    fn median(&mut self) -> Duration {
        self.times.sort_unstable();
        self.times[self.times.len() / 2]
    }
}

fn main() -> ExitCode {
    let effort = if cases::is_quick() { QUICK } else { FULL };
    let runner = Arc::new(cases::runner());
    let cold = Cold::of(&runner);

    let warm = |case: Case| {
        let (runner, job) = (&runner, case.job());
        Subject::new(move || {
            black_box(cases::run(runner, &job));
        })
    };
    let afresh = |case: Case| {
        let (cold, job) = (&cold, case.job());
        Subject::new(move || {
            black_box(cold.run(&case, &job));
        })
    };
    let mut subjects = [
        Subject::new(cases::smallest_process),
        warm(PRINT),
        warm(NUMPY),
        warm(GROUPBY),
        warm(LOG),
        afresh(PRINT),
        afresh(NUMPY),
        afresh(LOG),
    ];
    for _ in 0..effort.rounds {
        subjects.iter_mut().for_each(|subject| subject.take_turn(effort.turn));
    }
    let [process, print, numpy, groupby, log, cold_print, cold_numpy, cold_log] =
        subjects.each_mut().map(Subject::median);
    drop(subjects);

    let runs = effort.rounds * effort.turn;
    let against = |what: &'static str, bar: Option<f64>, time: Duration| Row {
        what,
        bar: bar.map_or(Bar::None, Bar::AtMost),
        measured: Some(time.as_secs_f64() / process.as_secs_f64()),
        unit: "x",
        detail: format!("{time:.2?} vs {process:.2?}, p50 of {runs} each"),
    };
    let rows = [
        against("fresh instance, `print(1)`, torn down and reset, vs spawning and reaping a process", Some(0.4), print),
        against("the same with numpy and pandas imported, small computation", Some(0.8), numpy),
        against("the same, groupby over a 1,000-row frame", Some(4.0), groupby),
        against(
            "fresh JavaScript instance, `console.log(1)`, torn down and reset, vs the same process",
            Some(0.15),
            log,
        ),
        against("`print(1)` on memory mapped afresh", None, cold_print),
        against("the same with numpy and pandas imported", None, cold_numpy),
        against("`console.log(1)` on memory mapped afresh", None, cold_log),
        threads::measure(&runner, effort.rounds, effort.turn),
        memory::measure(&runner, &memory::PYTHON, effort.live),
        memory::measure(&runner, &memory::JAVASCRIPT, effort.live),
        typescript::measure(effort.rounds),
    ];
    print!("{}", table::render(&rows));
    let mapped = [PRINT, NUMPY, LOG].map(|case| {
        let counts = runner.backend().region_counts(case.image).unwrap_or_default();
        format!("{} {counts:?}", case.image)
    });
    println!("\nregions (mapped, used again): {}", mapped.join(", "));

    // The answers must still be right after the measurement.
    for case in [PRINT, NUMPY, GROUPBY, LOG] {
        cases::check(&case, &cases::run(&runner, &case.job()));
    }
    let missed = rows.iter().any(|row| row.verdict() == Verdict::Missed);
    if missed && env::args().any(|arg| arg == "--enforce") { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
