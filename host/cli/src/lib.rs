//! The command line: parses arguments, prints results and returns an exit status.
//!
//! This crate is a thin adapter over `codebox-service`: it parses the arguments, calls the service and prints the
//! result. It is one of two places that may print, and it ends the process only by returning from [`main`]. It does not
//! know which backends exist: the composition root passes them in as a [`Host`].
//!
//! - Standard output contains only the guest's output, the result of a command, or, with `--json`, exactly one JSON
//!   document. All messages of codebox about a run are written to standard error.
//! - On a terminal the guest's output is filtered; to a pipe it is written byte for byte.
//! - File names and error messages are escaped wherever they are printed.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

mod answer;
mod args;
mod commands;
mod exit;
mod failure;
#[cfg(unix)]
mod handover;
mod host;
mod inert;
mod interrupt;
mod progress;
mod reference;
mod render;
#[cfg(unix)]
mod standby;
mod streams;
mod usage;
mod voice;

pub use args::{BROKER_COMMAND, COMPILE_COMMAND, KEEP_COMMAND};
pub use failure::Failure;
pub use host::{Confinement, EngineImage, Host, KeptPackage, Leftover, Provided, Sweep, SweptPlaces};
pub use reference::reference;
pub use render::limit_hit;
#[cfg(unix)]
pub use standby::STANDBY_VARIABLE;

use args::{Cli, marked};
use commands::Takeover;
use standby::StandingBy;
use voice::Voice;

/// Runs the command in `args`, which start with the program's own name, and returns the process's exit status.
///
/// Call it on the main thread, before any other thread is started, because a run confines the process.
pub fn main(args: impl IntoIterator<Item = OsString>, host: &dyn Host) -> ExitCode {
    // Standby processes wait here, before any other work, because most of them are never needed.
    let takeover = match StandingBy::find() {
        None => None,
        Some(line) => match Takeover::wait(line) {
            Some(takeover) => Some(takeover),
            // The first process did not need this one.
            None => return ExitCode::SUCCESS,
        },
    };
    places_for_files();
    let args: Vec<OsString> = args.into_iter().collect();
    let status = match Cli::try_parse_from(marked(args.clone())) {
        Ok(cli) => {
            let voice = Voice::new(cli.loudness.into());
            commands::dispatch(cli.command, voice, host, takeover)
        }
        Err(error) => usage::answer(&error, &args),
    };
    ExitCode::from(status)
}

/// Raises the limit on open files to the maximum, because connections and directories of concurrent jobs need many.
fn places_for_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let now = getrlimit(Resource::Nofile);
        // If the limit cannot be raised, the current one remains.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, ..now });
    }
}
