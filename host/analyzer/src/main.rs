//! The program that parses program text for codebox. Only codebox starts it, with a pipe for requests as standard input
//! and a pipe for reports as standard output.
//!
//! - `serve`: confines itself and serves requests until its input ends, each in a process of its own (Linux).
//! - `serve-one`: serves one request in this process, on platforms on which a process cannot be forked safely.

#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
mod filter;
#[cfg(unix)]
mod once;
#[cfg(unix)]
mod sys;
#[cfg(unix)]
mod worker;
#[cfg(target_os = "linux")]
mod zygote;

use std::process::ExitCode;

#[cfg(unix)]
#[global_allocator]
static MEMORY: sys::BoundedAllocator = sys::BoundedAllocator::new();

fn main() -> ExitCode {
    match run(std::env::args().nth(1).as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(125),
    }
}

#[cfg(unix)]
fn run(mode: Option<&str>) -> std::io::Result<()> {
    match mode {
        #[cfg(target_os = "linux")]
        Some("serve") => zygote::serve(),
        Some("serve-one") => once::serve(),
        _ => Err(std::io::Error::other("only codebox can start this program")),
    }
}

#[cfg(not(unix))]
fn run(_mode: Option<&str>) -> std::io::Result<()> {
    Err(std::io::Error::other("not supported on this system"))
}
