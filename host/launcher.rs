//! The `codebox` command: passes a run to the host process, or executes the complete program.
//!
//! It is a program of its own because it starts in a fraction of the time that the complete program, `codebox-full`,
//! takes. On other systems than Linux it is the complete program itself.

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    codebox::launch()
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    codebox::cli_main()
}
