//! The command line: arguments in, words and an exit status out.
//!
//! A thin adapter over `codebox-service`. It reads what the user typed, asks the service to do it, and tells
//! what came of it. It is one of two places that may print, and it ends the process only by returning from
//! [`main`]. Which backends exist it does not know: the composition root hands them in as a [`Host`].
//!
//! - Standard output belongs to the guest, or to the answer of a command, or, with `--json`, to exactly one
//!   JSON document. Everything codebox itself says about a run goes to standard error.
//! - On a terminal the guest's output is made inert; piped, it passes byte for byte.
//! - File names and error texts are escaped wherever they are shown.
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

/// Does what `args` says, the program's own name being the first, and gives the process's exit status.
///
/// Call it on the main thread, before any other thread is started: a run confines the process.
pub fn main(args: impl IntoIterator<Item = OsString>, host: &dyn Host) -> ExitCode {
    // Before anything else: most processes that stand by are never needed, and cost what they do until here.
    let takeover = match StandingBy::find() {
        None => None,
        Some(line) => match Takeover::wait(line) {
            Some(takeover) => Some(takeover),
            // The process that might have needed this one got by.
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

/// Takes as many open files as the system gives: connections and directories of jobs that run at one time each take some.
fn places_for_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let now = getrlimit(Resource::Nofile);
        // Who may not raise it goes on with what there is.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, ..now });
    }
}
