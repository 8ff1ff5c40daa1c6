//! Jobs in a warm host, each in a fresh instance that is torn down and reset, compared with spawning a process.
//!
//! Criterion reports how each job's time changes between commits; `ratios` checks the bars.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};

mod cases;

use cases::{Case, ColdBackend, GROUPBY, LOG, NUMPY, PRINT};

fn warm(criterion: &mut Criterion) {
    let runner = cases::runner();
    let cold = ColdBackend::from_runner(&runner);
    let mut medians = Vec::new();

    let mut group = criterion.benchmark_group("run");
    let mut measure = |name: String, work: &mut dyn FnMut()| {
        let mut times = Vec::new();
        group.bench_function(name.as_str(), |bencher| {
            bencher.iter_custom(|count| {
                let mut total = Duration::ZERO;
                for _ in 0..count {
                    let start = Instant::now();
                    work();
                    let elapsed = start.elapsed();
                    times.push(elapsed);
                    total += elapsed;
                }
                total
            });
        });
        times.sort_unstable();
        medians.push((name, times.get(times.len() / 2).copied().unwrap_or_default()));
    };

    measure("spawn/true".to_owned(), &mut cases::spawn_minimal_process);
    for case in [PRINT, NUMPY, GROUPBY, LOG] {
        let job = case.job();
        measure(id(&case, "wasm"), &mut || {
            black_box(cases::run(&runner, &job));
        });
    }
    for case in [PRINT, NUMPY, LOG] {
        let job = case.job();
        measure(id(&case, "wasm-cold"), &mut || {
            black_box(cold.run(&case, &job));
        });
    }
    group.finish();

    let Some((_, baseline)) = medians.first().cloned().filter(|(_, baseline)| !baseline.is_zero()) else { return };
    println!("p50 against spawning and reaping a process ({baseline:.0?}):");
    for (name, time) in &medians {
        println!("  {name:<18} {:.3}x  {time:.0?}", time.as_secs_f64() / baseline.as_secs_f64());
    }
    // The answers must still be right after the measurement.
    let job = GROUPBY.job();
    cases::check(&GROUPBY, &cases::run(&runner, &job));
}

/// Formats the id `case/backend`, which all benchmarks use.
fn id(case: &Case, backend: &str) -> String {
    format!("{}/{backend}", case.name)
}

fn config() -> Criterion {
    let criterion = Criterion::default();
    if cases::is_quick() {
        return criterion.sample_size(10).measurement_time(Duration::from_millis(300));
    }
    criterion
}

criterion_group! { name = benches; config = config(); targets = warm }
criterion_main!(benches);
