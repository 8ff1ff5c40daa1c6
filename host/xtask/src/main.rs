//! Development tasks, called as `cargo xtask TASK`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod compare;
mod dist;
mod docs;
mod fuzz;
mod guests;
mod lint_prose;
mod nightly;
mod project;
mod soak;
mod targets;
mod venv;
#[cfg(unix)]
mod vm_image;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Development tasks", version)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Compare whole processes with native Python and print a Markdown table
    Compare(compare::Options),
    /// Run the long forms of the reliability tests, or the fuzz targets
    Soak(soak::Options),
    /// Run all tests in their full form, on both container engines
    Nightly(nightly::Options),
    /// Make the packages of a release for this machine's system
    Dist(dist::Options),
    /// Write docs/cli.md from the binary's own reference
    Docs(docs::Options),
    /// Build the checked-in guests from their pinned sources and compare
    Guests(guests::Options),
    /// Make the image of virtual machines from packages of Debian, unless it exists
    #[cfg(unix)]
    VmImage(vm_image::Options),
    /// Check the crates that other systems use, for Windows and macOS
    Targets,
    /// Check the prose of comments and documents
    LintProse,
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Compare(options) => compare::run(&options),
        Task::Soak(options) => soak::run(&options),
        Task::Nightly(options) => nightly::run(&options),
        Task::Dist(options) => dist::run(&options),
        Task::Docs(options) => docs::run(&options),
        Task::Guests(options) => guests::run(&options),
        #[cfg(unix)]
        Task::VmImage(options) => vm_image::run(&options),
        Task::Targets => targets::run(),
        Task::LintProse => lint_prose::run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
