//! The program that parses program text for codebox. It is started by codebox alone, with a pipe for requests as standard
//! input and one for reports as standard output.
//!
//! - `serve`: confines itself and serves requests until its input ends, each in a process of its own (Linux).
//! - `serve-one`: serves one request itself, on systems where a process cannot be divided safely.

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
static MEMORY: sys::Bounded = sys::Bounded::new();

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
        _ => Err(std::io::Error::other("started by codebox alone")),
    }
}

#[cfg(not(unix))]
fn run(_mode: Option<&str>) -> std::io::Result<()> {
    Err(std::io::Error::other("not made for this system"))
}
