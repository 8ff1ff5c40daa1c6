//! The program for jobs in WebAssembly, which the command `codebox` executes for a run that no host process serves.
//!
//! On other systems than Linux it is the complete program itself.

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    codebox::run_main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    codebox::cli_main()
}
