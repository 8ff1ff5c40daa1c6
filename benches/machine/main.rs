//! Benchmark of virtual machines, against Podman in the machine itself and their bars.
//!
//! `cargo bench --bench machine` measures, with the image that `cargo xtask vm-image` makes. `-- --quick` shows that everything works.
//! `-- --enforce` makes a missed bar a failure. A wrong answer is always a failure.

#[cfg(target_os = "linux")]
mod measured;
#[cfg(target_os = "linux")]
#[path = "../ratios/table.rs"]
#[expect(dead_code, reason = "the other benchmark uses all kinds of bars")]
mod table;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let rows = measured::rows(if std::env::args().any(|arg| arg == "--quick") { 3 } else { 20 });
    print!("{}", table::render(&rows));
    let is_missed = rows.iter().any(|row| row.verdict() == table::Verdict::Missed);
    if is_missed && std::env::args().any(|arg| arg == "--enforce") {
        return std::process::ExitCode::FAILURE;
    }
    std::process::ExitCode::SUCCESS
}

#[cfg(not(target_os = "linux"))]
fn main() {}
