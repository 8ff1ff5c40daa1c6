//! Description of the machine, for published numbers.

use std::process::Command;
use std::thread::available_parallelism;

use super::BenchInputs;
use super::python::Origin;
use crate::project::output_of;

/// Returns the number of cores, the kernel, the versions of the compared Python and Node, and the commit.
pub fn facts(inputs: &BenchInputs) -> String {
    let cores = available_parallelism().map_or_else(|_| "?".to_owned(), |cores| cores.to_string());
    let kernel =
        nonempty_output(Command::new("uname").args(["-s", "-r", "-m"])).unwrap_or_else(|| std::env::consts::OS.into());
    let git = |args: &[&str]| nonempty_output(Command::new("git").current_dir(&inputs.project.root).args(args));
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".into());
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).map_or("", |_| " with changes");
    let python = &inputs.python.version;
    let origin = match inputs.python.origin {
        Origin::Named => "as named",
        Origin::Clean => "in a clean environment",
        Origin::Machine => "as this machine has it",
    };
    let node = inputs.node.as_ref().map_or_else(|_| "no Node".to_owned(), |node| format!("Node {}", node.version));
    format!("{cores} cores; {kernel}; CPython {python} {origin}; {node}; commit {commit}{changed}")
}

/// Returns a command's output if the command succeeds and prints anything.
fn nonempty_output(command: &mut Command) -> Option<String> {
    output_of(command).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}
