//! Benchmarks of whole processes: codebox and native Python, Node or QuickJS-NG run alternately and are compared as
//! ratios.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

mod audit;
mod container;
mod cpu;
mod decision;
mod imports;
mod interpreter;
mod javascript;
mod machine;
mod network;
mod node;
mod packages;
mod python;
mod qjs;
mod standby;
mod start;
mod table;
mod timing;

use crate::project::Project;
use node::Node;
use python::Python;
use table::Verdict;

/// Arguments of `compare`.
#[derive(Args)]
pub struct Options {
    /// Few runs: shows that everything works, and measures roughly
    #[arg(long)]
    quick: bool,
    /// Compare this binary instead of building one
    #[arg(long, value_name = "PATH")]
    codebox: Option<PathBuf>,
    /// Compare with this Python as it is, not with a clean environment of `python3`; it needs numpy and pandas
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Fail when a bar is missed
    #[arg(long)]
    enforce: bool,
}

/// Number of measurements of each subject.
#[derive(Debug, Clone, Copy)]
pub struct Runs {
    /// For a process that takes milliseconds.
    pub short: usize,
    /// For a process that takes a good part of a second.
    pub long: usize,
}

impl Runs {
    const FULL: Self = Self { short: 101, long: 7 };
    const QUICK: Self = Self { short: 11, long: 2 };
}

/// Inputs of all comparisons.
pub struct BenchInputs {
    pub project: Project,
    pub codebox: PathBuf,
    pub python: Python,
    /// Node, or the reason why it is missing.
    pub node: Result<Node, String>,
    pub runs: Runs,
}

/// Makes every comparison and prints the table.
///
/// # Errors
/// Fails if an output is wrong or codebox cannot run; with `--enforce`, also if a bar is missed.
pub fn run(options: &Options) -> Result<()> {
    let project = Project::find()?;
    let codebox = match &options.codebox {
        Some(path) => std::path::absolute(path).context("make the binary's path absolute")?,
        None => {
            let binary = project.binary()?;
            if !options.quick {
                project.build_run_program("release")?;
            }
            binary
        }
    };
    let python = Python::find(options.python.as_deref(), &project)?;
    let runs = if options.quick { Runs::QUICK } else { Runs::FULL };
    let node = Node::find().map_err(|error| format!("no Node: {error:#}"));
    let inputs = BenchInputs { project, codebox, python, node, runs };
    inputs.install()?;

    let comparisons = [
        start::compare,
        start::served,
        audit::compare,
        imports::compare,
        cpu::compare,
        network::compare,
        javascript::smallest,
        javascript::typed,
        interpreter::compare,
        decision::python,
        decision::typescript,
        standby::ended,
        standby::read,
        container::podman,
        container::docker,
        container::podman_ready,
        container::docker_ready,
        packages::wasm,
        packages::container,
        packages::lock,
        packages::repeated,
    ];
    let mut rows = Vec::new();
    for compare in comparisons {
        let row = compare(&inputs)?;
        eprintln!("compared: {}", row.what);
        rows.push(row);
    }
    print!("{}", table::render(&rows, &machine::facts(&inputs)));
    let missed = rows.iter().filter(|row| row.verdict() == Verdict::Missed).count();
    if options.enforce && missed > 0 {
        bail!("{missed} of {} bars missed", rows.len());
    }
    Ok(())
}

impl BenchInputs {
    /// Returns a `codebox run` command with the runtime that development shares.
    fn codebox(&self) -> Command {
        let mut command = self.command();
        command.env("CODEBOX_HOST", "off").arg("run");
        command
    }

    /// Returns a command of codebox that uses a host process if there is one.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.codebox);
        command.env("CODEBOX_HOME", &self.project.home).env("CODEBOX_HOST", "on");
        command
    }

    /// Installs the runtimes, so that no comparison includes the installation.
    fn install(&self) -> Result<()> {
        for language in ["python", "javascript"] {
            let mut first = self.codebox();
            first.args(["-c", "", "--lang", language]).stdin(Stdio::null());
            let status = first.status().context("start codebox")?;
            ensure!(status.success(), "codebox cannot run the empty {language} program: {status}");
        }
        Ok(())
    }
}
