//! Generated documents: the reference of the command line.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::project::{Project, output_of};

const CLI: &str = "docs/cli.md";

/// Arguments of `docs`.
#[derive(Args)]
pub struct Options {
    /// Write nothing; fail if the checked-in document differs
    #[arg(long)]
    check: bool,
}

/// Writes or checks the reference of the command line.
///
/// # Errors
/// Fails if the binary cannot be built or run; with `--check`, also if the document differs from the binary's
/// reference.
pub fn run(options: &Options) -> Result<()> {
    let project = Project::find()?;
    let expected = output_of(Command::new(project.binary()?).arg("help-markdown"))?;
    let path = project.root.join(CLI);
    if !options.check {
        fs::write(&path, expected).with_context(|| format!("write {CLI}"))?;
        println!("wrote {CLI}");
        return Ok(());
    }
    let found = fs::read_to_string(&path).with_context(|| format!("read {CLI}"))?;
    if found == expected {
        println!("{CLI} is up to date");
        return Ok(());
    }
    let same = found.lines().zip(expected.lines()).take_while(|(found, expected)| found == expected).count();
    let line = |text: &str| text.lines().nth(same).unwrap_or("nothing").to_owned();
    bail!(
        "{CLI} is out of date: line {} is {:?}, the binary prints {:?}; run `cargo xtask docs`",
        same + 1,
        line(&found),
        line(&expected)
    )
}
