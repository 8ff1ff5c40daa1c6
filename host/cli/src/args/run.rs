use std::ffi::{OsStr, OsString};
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use codebox_core::{
    ByteSize, DirGrantSpec, Language, Limit, LimitOverrides, MOST_WARM, NetGrant, ResultKind, parse_count,
    parse_duration, parse_size,
};
use codebox_service::{EnvRequest, Preference};

use super::values::{engine, preference, small_count};
use crate::failure::Failure;

/// The ways to give a program to `run`, and to commands that take what it takes.
macro_rules! usage {
    ($command:literal) => {
        concat!(
            "codebox ",
            $command,
            " [OPTIONS] FILE [--] [ARGS]...\n",
            "       codebox ",
            $command,
            " [OPTIONS] -c CODE [--] [ARGS]...\n",
            "       codebox ",
            $command,
            " [OPTIONS] - [--] [ARGS]... < PROGRAM\n",
            "       codebox ",
            $command,
            " [OPTIONS] -- COMMAND [ARGS]..."
        )
    };
}
pub(super) use usage;

/// What `codebox run` was asked for.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The program and its arguments: a file, or `-` to read the program from standard input
    ///
    /// Everything after FILE goes to the program, options too. What stands after `--` with no program before it is a
    /// command line, which runs in a container: `codebox run --image debian:stable -- ls -l`.
    // One list instead of a file and a list: only so does clap leave every word after the first alone.
    #[arg(value_name = "FILE", trailing_var_arg = true)]
    pub words: Vec<OsString>,

    /// Run this text instead of a file; what follows is the program's arguments
    #[arg(short = 'c', value_name = "CODE", allow_hyphen_values = true)]
    pub code: Option<String>,

    /// What has to stand between the program and this machine
    #[arg(long, value_name = "WHERE", default_value = "auto", value_parser = preference())]
    pub isolation: Preference,

    /// Show a directory of this machine to the program, read-only unless `:rw` is added; repeatable
    #[arg(long = "dir", value_name = "HOST:GUEST[:ro|rw]")]
    pub dirs: Vec<DirGrantSpec>,

    /// Let the program connect to this host: a name, `*.domain`, an address or a range; repeatable
    ///
    /// Nothing else gets out. An address that only this machine or its network can see has to be granted by itself or in a
    /// range such as 10.0.0.0/8, also where a granted name leads to it. IPv6 is written [2001:db8::1]:443.
    #[arg(long = "net", value_name = "HOST[:PORT]")]
    pub net: Vec<NetGrant>,

    /// Give the program a variable of this environment, or one with a value of its own; repeatable
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    pub env: Vec<EnvRequest>,

    /// Have this package there, such as requests or 'rich>=13'; repeatable
    ///
    /// Pure packages stay in WebAssembly; what has native parts is run in a container. What a script lists by itself, in a
    /// block `# /// script`, is had too. Only wheels are installed, and nothing of a package is run to install it, unless
    /// `--build` says so.
    #[arg(long = "with", value_name = "PACKAGE", allow_hyphen_values = true)]
    pub with: Vec<String>,

    /// Have the packages that this file lists, a requirements.txt; repeatable
    #[arg(short = 'r', long = "requirements", value_name = "FILE")]
    pub requirements: Vec<PathBuf>,

    /// Build packages of Python that have no wheel, only a source distribution
    ///
    /// Each is built in a container of its own, which has no network, nothing of this machine and the limits of this run, and
    /// is kept for the next runs. What it is built with has to have wheels.
    #[arg(long)]
    pub build: bool,

    /// Start from this image: one of `codebox image list`, or a container's, such as node:22-slim
    #[arg(long, value_name = "NAME")]
    pub image: Option<String>,

    /// The container engine to use where a container is used
    #[arg(long, value_name = "ENGINE", value_parser = engine())]
    pub engine: Option<String>,

    /// The program's language, where its file name does not tell
    #[arg(long, value_name = "LANGUAGE")]
    pub lang: Option<Language>,

    /// Bring the files that the program leaves in /work to this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Print one JSON document with the result, output included, instead of streaming the output
    #[arg(long)]
    pub json: bool,

    /// Keep this many containers like this run's ready for the next runs; 0 ends all of that
    ///
    /// A process in the background keeps them, and ends when no run came for ten minutes. Each serves one run: the first
    /// that has the same image, directories, hosts and limits on memory, disk, processes and open files.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(0..=i64::from(MOST_WARM)))]
    pub warm: Option<u32>,

    /// Leave out the operating system's walls around this process; for debugging
    #[arg(long)]
    pub no_confine: bool,

    // Last: its heading would go on over what follows.
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// The ceilings that a user set.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits (each a value, or `unlimited`)")]
pub(crate) struct LimitArgs {
    /// Wall time, such as 500ms, 5s or 1h30m [default: 60s]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = parse_duration)]
    pub timeout: Option<Limit<Duration>>,

    /// Processor time [default: unlimited]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = parse_duration)]
    pub cpu_time: Option<Limit<Duration>>,

    /// Memory, such as 256M or 1.5GiB [default: 1GiB]
    #[arg(long, allow_hyphen_values = true, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<Limit<ByteSize>>,

    /// Bytes kept of each of stdout and stderr [default: 16MiB]
    #[arg(long, allow_hyphen_values = true, value_name = "SIZE", value_parser = parse_size)]
    pub max_output: Option<Limit<ByteSize>>,

    /// Bytes written to files [default: 1GiB]
    #[arg(long, allow_hyphen_values = true, value_name = "SIZE", value_parser = parse_size)]
    pub max_disk: Option<Limit<ByteSize>>,

    /// Files and directories created [default: 10000]
    #[arg(long, allow_hyphen_values = true, value_name = "COUNT", value_parser = parse_count)]
    pub max_files: Option<Limit<NonZeroU64>>,

    /// Files open at one time [default: 256]
    #[arg(long, allow_hyphen_values = true, value_name = "COUNT", value_parser = small_count)]
    pub max_open_files: Option<Limit<NonZeroU32>>,

    /// Processes and threads at one time [default: 64]
    #[arg(long, allow_hyphen_values = true, value_name = "COUNT", value_parser = small_count)]
    pub max_processes: Option<Limit<NonZeroU32>>,

    /// Bytes to and from granted hosts, together [default: 1GiB]
    #[arg(long, allow_hyphen_values = true, value_name = "SIZE", value_parser = parse_size)]
    pub max_net_bytes: Option<Limit<ByteSize>>,

    /// Connections to granted hosts, over the whole run [default: 10000]
    #[arg(long, allow_hyphen_values = true, value_name = "COUNT", value_parser = parse_count)]
    pub max_net_connections: Option<Limit<NonZeroU64>>,
}

impl LimitArgs {
    /// The same as values.
    pub(crate) fn overrides(&self) -> LimitOverrides {
        let Self {
            timeout,
            cpu_time,
            memory,
            max_output,
            max_disk,
            max_files,
            max_open_files,
            max_processes,
            max_net_bytes,
            max_net_connections,
        } = *self;
        LimitOverrides {
            wall: timeout,
            cpu: cpu_time,
            memory,
            output: max_output,
            disk: max_disk,
            files: max_files,
            open_files: max_open_files,
            processes: max_processes,
            fuel: None,
            net_bytes: max_net_bytes,
            net_connections: max_net_connections,
        }
    }
}

/// Where the program is, before anything is read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ProgramAt {
    Inline(String),
    Stdin,
    File(PathBuf),
    Command,
}

impl RunArgs {
    /// How many of the last words of the command line are the program and its arguments.
    pub(crate) fn typed_words(&self) -> usize {
        self.words.iter().filter(|word| *word != COMMAND_FOLLOWS).count()
    }

    /// Tells the program from its arguments.
    pub(crate) fn program(&self) -> Result<(ProgramAt, Vec<String>), Failure> {
        let (program, args) = match (&self.code, self.words.split_first()) {
            (Some(code), Some((first, rest))) if first == COMMAND_FOLLOWS => (ProgramAt::Inline(code.clone()), rest),
            (Some(code), _) => (ProgramAt::Inline(code.clone()), self.words.as_slice()),
            (None, None) => return Err(no_program()),
            (None, Some((first, []))) if first == COMMAND_FOLLOWS => return Err(no_program()),
            (None, Some((first, rest))) if first == COMMAND_FOLLOWS => (ProgramAt::Command, rest),
            (None, Some((first, rest))) => {
                let program = if first == "-" { ProgramAt::Stdin } else { ProgramAt::File(PathBuf::from(first)) };
                (program, without_separator(rest))
            }
        };
        let args: Vec<_> = args.iter().filter(|word| **word != COMMAND_FOLLOWS).collect();
        let args = args.iter().map(|word| text(word)).collect::<Result<_, _>>()?;
        Ok((program, args))
    }
}

/// Stands behind the first `--` of a command line while it is parsed: clap does not tell whether one was there. No word
/// that a user can type has a NUL in it.
const COMMAND_FOLLOWS: &str = "\0--";

/// A command line in which the first `--` after a command that takes programs can be told from none.
pub(crate) fn marked(mut args: Vec<OsString>) -> Vec<OsString> {
    let takes_programs = args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "run" || arg == "explain");
    if let (true, Some(place)) = (takes_programs, args.iter().position(|arg| arg == "--")) {
        args.insert(place + 1, COMMAND_FOLLOWS.into());
    }
    args
}

/// Drops the one `--` that may stand between a program and its arguments.
fn without_separator(words: &[OsString]) -> &[OsString] {
    match words.split_first() {
        Some((first, rest)) if first == "--" => rest,
        _ => words,
    }
}

fn text(word: &OsStr) -> Result<String, Failure> {
    let fault =
        || Failure::new(ResultKind::InvalidRequest, format!("cannot pass the argument {word:?}: it is not UTF-8"));
    word.to_str().map(str::to_owned).ok_or_else(fault)
}

fn no_program() -> Failure {
    Failure::new(ResultKind::InvalidRequest, "no program to run")
        .with_fix("name a file, give the text with -c, write - to read it from standard input, or a command after --")
}
