//! Implementations of the commands. Each one calls the service, prints the result and returns the exit status.

use std::io::Read as _;

use codebox_core::ResultKind;

use crate::answer;
use crate::args::{Cli, Command};
use crate::failure::Failure;
use crate::host::{Host, Sweep};
use crate::reference::reference;
use crate::voice::Voice;

mod again;
mod doctor;
mod explain;
mod gc;
mod image;
mod jobs;
mod packages;
mod run;
mod runtime;
mod state;

pub(crate) use run::Takeover;

/// Maximum number of bytes of instructions on standard input.
const MOST_ASKED: u64 = 1 << 20;

/// Runs `command`, reports any failure, and returns the process's exit status.
///
/// `takeover` holds the handover of another run, in a process that stood by.
pub(crate) fn dispatch(command: Command, voice: Voice, host: &dyn Host, takeover: Option<Takeover>) -> u8 {
    let done = match command {
        Command::Run(args) => return run::run(*args, voice, host, takeover),
        Command::Explain(args) => explain::explain(*args, host),
        Command::Runtime(command) => runtime::runtime(command, voice, host),
        Command::Image(command) => image::image(command, voice, host),
        Command::Doctor => doctor::doctor(host),
        Command::Jobs { last, json: false } => jobs::jobs(last, host),
        Command::Jobs { last, json: true } => jobs::jobs_as_json(last, host),
        Command::Gc { dry_run: false } => gc::gc(Sweep::Remove, host),
        Command::Gc { dry_run: true } => gc::gc(Sweep::NameOnly, host),
        Command::Lock(args) => packages::lock(args, voice, host),
        Command::Packages(command) => packages::packages(command, voice, host),
        Command::Compile => asked_of_us().and_then(|asked| host.compile(&asked)).map(|()| 0),
        Command::KeepWarm { engine } => asked_of_us().and_then(|asked| host.keep(&engine, &asked)).map(|()| 0),
        Command::NetBroker => host.connect_for_others().map(|()| 0),
        Command::Completions { shell } => completions(shell),
        Command::HelpMarkdown => answer::print(&reference()),
    };
    done.unwrap_or_else(|failure| {
        voice.fail(&failure);
        failure.exit_status()
    })
}

/// Reads the instructions that another codebox process wrote to standard input.
fn asked_of_us() -> Result<String, Failure> {
    let mut asked = String::new();
    let read = std::io::stdin().take(MOST_ASKED).read_to_string(&mut asked);
    read.map_err(|error| Failure::new(ResultKind::InvalidRequest, format!("cannot read what to do: {error}")))?;
    Ok(asked)
}

fn completions(shell: clap_complete::Shell) -> Result<u8, Failure> {
    let mut command = <Cli as clap::CommandFactory>::command();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "codebox", &mut script);
    answer::print(&String::from_utf8_lossy(&script))
}
