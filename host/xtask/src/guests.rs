//! Checked-in guests: rebuilt from pinned sources, and compared byte for byte or replaced.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

mod artifact;
mod build_env;
mod component;
mod description;
mod javascript;
mod lua;
mod prelude;
mod ziglang;

use crate::project::Project;
use artifact::Artifact;
use build_env::BuildEnv;

/// Arguments of `guests`.
#[derive(Args)]
pub struct Options {
    /// Build only these guests; all by default
    #[arg(value_name = "NAME")]
    names: Vec<Guest>,
    /// Replace the checked-in files without comparing
    #[arg(long)]
    write: bool,
}

/// Guest whose build is part of this repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Guest {
    Javascript,
    Lua,
}

impl Guest {
    /// Returns the guest's folder name in `guest-runtimes`.
    fn name(self) -> &'static str {
        match self {
            Self::Javascript => "javascript",
            Self::Lua => "lua",
        }
    }

    /// Builds every generated file from the current sources.
    fn make(self, build_env: &BuildEnv) -> Result<Vec<Artifact>> {
        match self {
            Self::Javascript => javascript::make(build_env),
            Self::Lua => lua::make(build_env),
        }
    }
}

/// Builds the guests and compares them with the checked-in files, or replaces those.
///
/// # Errors
/// Fails if a guest cannot be built; without `--write`, also if a checked-in file differs from its build.
pub fn run(options: &Options) -> Result<()> {
    let project = Project::find()?;
    let build_env = BuildEnv::open(&project)?;
    let (mut count, mut differing) = (0, 0);
    for guest in Guest::value_variants() {
        if !options.names.is_empty() && !options.names.contains(guest) {
            continue;
        }
        let (name, began) = (guest.name(), Instant::now());
        let files = guest.make(&build_env).with_context(|| format!("build the guest {name}"))?;
        println!("{name}: built in {:.0?}", began.elapsed());
        count += files.len();
        for artifact in &files {
            let path = artifact.path.display();
            match artifact.difference(&project.root)? {
                None => println!("{name}: {path} is what its sources give ({})", artifact.summary()),
                Some(_) if options.write => {
                    artifact.write(&project.root)?;
                    let done = if artifact.bytes.is_some() { "wrote" } else { "removed" };
                    println!("{name}: {done} {path} ({})", artifact.summary());
                }
                Some(difference) => {
                    println!("{name}: {path} DIFFERS: {difference}; made: {}", artifact.summary());
                    differing += 1;
                }
            }
        }
    }
    if differing > 0 {
        bail!(
            "{differing} of {count} files differ from the build of their sources; `cargo xtask guests --write` replaces them"
        );
    }
    Ok(())
}
