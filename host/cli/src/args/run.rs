use std::ffi::{OsStr, OsString};
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};
use codebox_core::{
    ByteSize, ContainerPower, Cpus, DirGrantSpec, GuestPath, Language, Limit, LimitOverrides, MAX_WARM_INSTANCES,
    NetGrant, OutputShape, ResultKind, RunnerError, ToolName, parse_count, parse_cpus, parse_duration, parse_size,
};
use codebox_service::{EnvRequest, Preference, SecretRequest};

use super::show::ShowArgs;
use super::tools::ToolArgs;
use super::values::{LanguageParser, engine, parse_small_count, preference, preferred, version};

/// Usage of `run`, and of other commands that take the same program and options.
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
            " [OPTIONS] -m MODULE [ARGS]...\n",
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

/// Arguments of `codebox run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The program and its arguments: a file, a directory, or `-` to read the program from standard input
    ///
    /// All words after FILE are passed to the program, including options. Words after `--` without a program before it
    /// are a command line, which runs in a container: `codebox run --image debian:stable -- ls -l`. A directory is a project, as
    /// with `--project`, and its program is its `__main__.py`, or the `main` of its `package.json`.
    // One list instead of a file and a list, because only then does clap pass on every word after the first unparsed.
    #[arg(value_name = "FILE", trailing_var_arg = true)]
    pub words: Vec<OsString>,

    /// Run this text instead of a file; the words that follow are the program's arguments
    #[arg(short = 'c', value_name = "CODE", allow_hyphen_values = true)]
    pub code: Option<String>,

    /// Run this Python module, as `python -m` does; all words that follow are the program's arguments
    ///
    /// It is one of the project, of the packages or of the library.
    #[arg(short = 'm', value_name = "MODULE", conflicts_with = "code")]
    pub module: Option<String>,

    /// Copy the files of this directory to the program's /work, and install the packages that they list
    ///
    /// The program can change its copies; `--out` brings files out. Left out are files that `.gitignore` lists, names of secrets such as
    /// `.env` and `*.pem`, `.git`, directories of installed packages, and links; `codebox explain` lists them. The packages
    /// are those of uv.lock, pylock.toml, pyproject.toml or requirements.txt, and of package-lock.json or package.json.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub project: Option<PathBuf>,

    /// Working directory of the program
    ///
    /// Without the option, it is the place of the current directory in the project, or /work. A directory below /work and /tmp is
    /// created if it is missing.
    #[arg(long, value_name = "GUEST", value_parser = guest_dir)]
    pub workdir: Option<GuestPath>,

    /// Make the program's streams a terminal, as they are by themselves if all three streams of this command are one
    ///
    /// `isatty()` is true, and the program sees the size and has TERM, COLORTERM and NO_COLOR. In a container, standard error is part of standard
    /// output. Control sequences other than colours and changes of the current line are made visible.
    #[arg(short = 't', long, overrides_with = "no_tty")]
    pub tty: bool,

    /// Make the program's streams pipes
    #[arg(long, overrides_with = "tty")]
    pub no_tty: bool,

    /// Isolation between the program and this machine
    #[arg(long, value_name = "WHERE", default_value = "auto", value_parser = preference())]
    pub isolation: Preference,

    /// Isolation that is preferred among those that can run the program; without one the lightest
    #[arg(long, value_name = "WHERE", value_parser = preferred())]
    pub prefer: Option<Preference>,

    /// Grant a directory of this machine to the program, read-only unless `:rw` is added; repeatable
    ///
    /// Without GUEST, a directory is at /work/NAME, and the current one, `.`, is /work itself.
    #[arg(long = "dir", value_name = "HOST[:GUEST][:ro|rw]", value_hint = ValueHint::DirPath)]
    pub dirs: Vec<DirGrantSpec>,

    /// Allow the program to connect to this host: a name, `*.domain`, an address or a range; repeatable
    ///
    /// All other connections are refused. An address that only this machine or its network can reach must be granted by
    /// itself or in a range such as 10.0.0.0/8, even if a granted name resolves to it. IPv6 is written
    /// [2001:db8::1]:443.
    #[arg(long = "net", value_name = "HOST[:PORT]")]
    pub net: Vec<NetGrant>,

    /// Pass a variable of this environment to the program, or set one to a value; repeatable
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    pub env: Vec<EnvRequest>,

    /// Set the variables in this file, such as `.env`; repeatable
    ///
    /// Each line is NAME=VALUE, with or without quotes. References to other variables are not replaced. A variable of `--env` takes
    /// precedence, and then one of a later file.
    #[arg(long = "env-file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub env_files: Vec<PathBuf>,

    /// Let the program use a secret of this environment in requests to HOST, without seeing it; repeatable
    ///
    /// The program's variable NAME has a placeholder. In the headers of its HTTP requests to HOST, which --net must grant, the
    /// placeholder is replaced with the value of VARIABLE, over TLS only. Separate several hosts with commas. In WebAssembly only.
    #[arg(long = "secret", value_name = "NAME=env:VARIABLE@HOST")]
    pub secrets: Vec<SecretRequest>,

    /// Install this package for the program, such as requests or 'rich>=13'; repeatable
    ///
    /// Pure packages run in WebAssembly; packages with native parts run in a container. Packages that a script lists in
    /// a `# /// script` block are installed too. Only wheels are installed, and no code of a package runs during
    /// installation, unless `--build` is given.
    #[arg(long = "with", value_name = "PACKAGE", allow_hyphen_values = true)]
    pub with: Vec<String>,

    /// Install the packages in this requirements file; repeatable
    #[arg(short = 'r', long = "requirements", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub requirements: Vec<PathBuf>,

    /// Build Python packages that have no wheel from their source distributions
    ///
    /// Each package is built in its own container, without network, without access to this machine, and with the limits
    /// of this run; the result is kept for later runs. Build dependencies must have wheels.
    #[arg(long)]
    pub build: bool,

    /// Start from this image: one of `codebox image list`, or a container image such as node:22-slim
    #[arg(long, value_name = "NAME")]
    pub image: Option<String>,

    /// Start from the container image of this version of Python, such as 3.12
    #[arg(long, value_name = "VERSION", value_parser = version, conflicts_with_all = ["image", "node"])]
    pub python: Option<String>,

    /// Start from the container image of this version of Node, such as 22
    #[arg(long, value_name = "VERSION", value_parser = version, conflicts_with = "image")]
    pub node: Option<String>,

    /// Container engine to use for runs in a container
    #[arg(long, value_name = "ENGINE", value_parser = engine())]
    pub engine: Option<String>,

    /// Run in this running container, which codebox has not made, given by its id or name
    ///
    /// The container is what its maker made it: codebox adds nothing to it and lists its powers over this machine in the report. Only the
    /// limits on wall time and output apply. Paths below its mounted directories are the same files on this machine.
    #[arg(long, value_name = "CONTAINER", conflicts_with = "dev_config")]
    pub container: Option<String>,

    /// Description of the dev container for `--isolation devcontainer`: a file, or the name of its directory in .devcontainer
    #[arg(long, value_name = "FILE|NAME")]
    pub dev_config: Option<PathBuf>,

    /// Let the dev container or the container have these powers over this machine, separated by commas; repeatable
    ///
    /// One of privileged, capabilities, security-options, devices, host-namespaces, mounts, sockets, ports, compose, engine-arguments and
    /// host-commands.
    #[arg(long = "allow-power", value_name = "POWER", value_delimiter = ',')]
    pub powers: Vec<ContainerPower>,

    /// Language of the program, if its file name does not show it
    #[arg(long, value_name = "LANGUAGE", value_parser = LanguageParser, hide_possible_values = true)]
    pub lang: Option<Language>,

    /// Copy the files that the program leaves in /work to this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,

    /// Print one JSON document with the result, the output and the rich results, instead of streaming the output
    #[arg(long)]
    pub json: bool,

    /// Keep this many containers warm for later runs with the same settings; 0 removes all of them
    ///
    /// A background process keeps them, and ends after ten minutes without a run. Each serves one run: the first with
    /// the same image, directories, hosts and limits on memory, disk, processes and open files.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(0..=i64::from(MAX_WARM_INSTANCES)))]
    pub warm: Option<u32>,

    /// Run the program again when its file, its project or a directory that is granted read-only changes
    ///
    /// A run that has not ended is stopped. Ctrl-C ends the command.
    #[arg(long, conflicts_with = "json")]
    pub watch: bool,

    #[command(flatten)]
    pub shape: ShapeArgs,

    #[command(flatten)]
    pub show: ShowArgs,

    #[command(flatten)]
    pub tools: ToolArgs,

    /// Names of the tools, when their servers have listed them.
    #[arg(skip)]
    pub tool_names: Vec<ToolName>,

    /// Disable the operating system's sandbox around this process; for debugging
    #[arg(long)]
    pub no_confine: bool,

    // This field is last because its help heading would also apply to the arguments that follow.
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// Limits on the output that the caller gets.
#[derive(Debug, Args)]
pub(crate) struct ShapeArgs {
    /// Cut each output stream after this many bytes, for a reader of short texts
    ///
    /// The output then ends with `...[truncated]`, and a message names the file that has all of it. The program is not stopped.
    /// Default: 4000 if --output-lines is given, otherwise nothing is cut.
    #[arg(long, value_name = "COUNT")]
    pub output_bytes: Option<NonZeroU64>,

    /// Cut each output stream after this many lines, as --output-bytes does
    ///
    /// Default: 200 if --output-bytes is given, otherwise nothing is cut.
    #[arg(long, value_name = "COUNT")]
    pub output_lines: Option<NonZeroU64>,
}

impl ShapeArgs {
    /// Returns the limits, if there is one.
    pub(crate) fn shape(&self) -> Option<OutputShape> {
        let Self { output_bytes, output_lines } = *self;
        output_bytes.or(output_lines)?;
        let OutputShape { max_bytes, max_lines } = OutputShape::default();
        Some(OutputShape { max_bytes: output_bytes.unwrap_or(max_bytes), max_lines: output_lines.unwrap_or(max_lines) })
    }
}

/// Limits that the user set.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits (each a value, or `unlimited`)")]
pub(crate) struct LimitArgs {
    /// Wall time, such as 500ms, 5s or 1h30m [default: 60s]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = parse_duration)]
    pub timeout: Option<Limit<Duration>>,

    /// Processor time [default: unlimited]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = parse_duration)]
    pub cpu_time: Option<Limit<Duration>>,

    /// Processors that are busy at one time, such as 2 or 0.5, which needs a container [default: unlimited]
    ///
    /// A program in WebAssembly has one thread.
    #[arg(long, allow_hyphen_values = true, value_name = "COUNT", value_parser = parse_cpus)]
    pub cpus: Option<Limit<Cpus>>,

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
    #[arg(long, allow_hyphen_values = true, value_name = "COUNT", value_parser = parse_small_count)]
    pub max_open_files: Option<Limit<NonZeroU32>>,

    /// Processes and threads at one time [default: 64]
    #[arg(long, allow_hyphen_values = true, value_name = "COUNT", value_parser = parse_small_count)]
    pub max_processes: Option<Limit<NonZeroU32>>,

    /// Bytes to and from granted hosts, together [default: 1GiB]
    #[arg(long, allow_hyphen_values = true, value_name = "SIZE", value_parser = parse_size)]
    pub max_net_bytes: Option<Limit<ByteSize>>,

    /// Connections to granted hosts, over the whole run [default: 10000]
    #[arg(long, allow_hyphen_values = true, value_name = "COUNT", value_parser = parse_count)]
    pub max_net_connections: Option<Limit<NonZeroU64>>,
}

impl LimitArgs {
    /// Returns the number of processors; `None` for all.
    pub(crate) fn cpus(&self) -> Option<Cpus> {
        self.cpus.and_then(Limit::at)
    }

    /// Returns the limits as values.
    pub(crate) fn overrides(&self) -> LimitOverrides {
        let Self {
            timeout,
            cpu_time,
            cpus: _,
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

/// Location of the program, before it is read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ProgramLocation {
    Inline(String),
    Module(String),
    Stdin,
    File(PathBuf),
    Command,
}

impl RunArgs {
    /// Returns the image that the arguments name, by itself or by a version of its interpreter.
    pub(crate) fn image(&self) -> Option<String> {
        let of_python = || self.python.as_ref().map(|version| format!("python:{version}-slim"));
        let of_node = || self.node.as_ref().map(|version| format!("node:{version}-slim"));
        self.image.clone().or_else(of_python).or_else(of_node)
    }

    /// Returns the words of the program and its arguments.
    pub(crate) fn program_words(&self) -> Vec<OsString> {
        self.words.iter().filter(|word| *word != SEPARATOR_MARKER).cloned().collect()
    }

    /// Returns the number of words at the end of the command line that are the program and its arguments.
    pub(crate) fn program_word_count(&self) -> usize {
        self.words.iter().filter(|word| *word != SEPARATOR_MARKER).count()
    }

    /// Returns true if the options name neither packages, containers, images nor host tools, and if the program can be read twice:
    /// it is no pipe.
    pub(crate) fn needs_only_wasm(&self) -> bool {
        let is_file = match self.program() {
            Ok((ProgramLocation::Inline(_), _)) => true,
            // The cells of a notebook run in a session.
            Ok((ProgramLocation::File(path), _)) => {
                !is_notebook(&path) && std::fs::metadata(path).is_ok_and(|file| file.is_file())
            }
            Ok((ProgramLocation::Module(_), _)) => true,
            Ok((ProgramLocation::Stdin | ProgramLocation::Command, _)) | Err(_) => false,
        };
        let has_packages = !self.with.is_empty() || !self.requirements.is_empty() || self.build;
        let is_attached = self.container.is_some() || self.dev_config.is_some();
        let has_container = self.image().is_some() || self.engine.is_some() || self.warm.is_some() || is_attached;
        let has_others = !self.tools.is_empty() || self.show.show.is_some() || self.watch;
        is_file && !has_packages && !has_container && !has_others
    }

    /// Separates the program from its arguments.
    pub(crate) fn program(&self) -> Result<(ProgramLocation, Vec<String>), RunnerError> {
        if let Some(name) = &self.module {
            let args = self.words.iter().filter(|word| *word != SEPARATOR_MARKER);
            let args = args.map(|word| text(word)).collect::<Result<_, _>>()?;
            return Ok((ProgramLocation::Module(name.clone()), args));
        }
        let (program, args) = match (&self.code, self.words.split_first()) {
            (Some(code), Some((first, rest))) if first == SEPARATOR_MARKER => {
                (ProgramLocation::Inline(code.clone()), rest)
            }
            (Some(code), _) => (ProgramLocation::Inline(code.clone()), self.words.as_slice()),
            (None, None) => return Err(no_program()),
            (None, Some((first, []))) if first == SEPARATOR_MARKER => return Err(no_program()),
            (None, Some((first, rest))) if first == SEPARATOR_MARKER => (ProgramLocation::Command, rest),
            (None, Some((first, rest))) => {
                let program =
                    if first == "-" { ProgramLocation::Stdin } else { ProgramLocation::File(PathBuf::from(first)) };
                (program, without_separator(rest))
            }
        };
        let args: Vec<_> = args.iter().filter(|word| **word != SEPARATOR_MARKER).collect();
        let args = args.iter().map(|word| text(word)).collect::<Result<_, _>>()?;
        Ok((program, args))
    }
}

/// Returns true if a path is the name of a notebook.
pub(crate) fn is_notebook(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "ipynb")
}

/// Marker after the first `--` of a command line during parsing, because clap does not report if there was one. A word
/// that a user types cannot contain a NUL.
const SEPARATOR_MARKER: &str = "\0--";

/// Returns the command line with `run` before a file that is its first word, as in `codebox script.py`.
#[must_use]
pub fn with_run(mut args: Vec<OsString>) -> Vec<OsString> {
    // No command has a dot or a slash in its name.
    let is_file = |word: &OsString| {
        let word = word.as_encoded_bytes();
        !word.starts_with(b"-") && word.iter().any(|byte| matches!(byte, b'.' | b'/'))
    };
    if args.get(1).is_some_and(is_file) {
        args.insert(1, "run".into());
    }
    args
}

/// Inserts the marker after the first `--` of a command that takes a program.
pub(crate) fn mark_separator(mut args: Vec<OsString>) -> Vec<OsString> {
    let is_value = |at: usize| at > 0 && GLOBAL_VALUES.iter().any(|option| args[at - 1] == *option);
    let is_command = |at: &usize| ["run", "explain", "x"].iter().any(|name| args[*at] == *name) && !is_value(*at);
    let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let command = (0..end).find(is_command).filter(|command| args[*command] != "x");
    let takes_programs = command.is_some();
    if let Some(end) = command.and_then(|command| module_end(&args, command)) {
        // The words after the name of a module are its arguments, whatever they look like.
        args.insert(end, "--".into());
        args.insert(end + 1, SEPARATOR_MARKER.into());
        return args;
    }
    if let (true, Some(place)) = (takes_programs, args.iter().position(|arg| arg == "--")) {
        args.insert(place + 1, SEPARATOR_MARKER.into());
    }
    args
}

/// Options of every command that have a value.
const GLOBAL_VALUES: [&str; 2] = ["--trace", "--log"];

/// Returns the place after the name of a module, if the options of a command name one.
fn module_end(args: &[OsString], command: usize) -> Option<usize> {
    let is_short = |word: &&OsString| {
        let word = word.as_encoded_bytes();
        word.first() == Some(&b'-') && word.get(1) != Some(&b'-') && word.contains(&b'm')
    };
    args.iter().skip(command).find(is_short)?;
    let options = RunArgs::augment_args(clap::Command::new(""));
    // An option whose value follows only after `=` is a word of its own.
    let has_value = |option: &&clap::Arg| {
        option.get_action().takes_values() && option.get_num_args().is_none_or(|count| count.min_values() > 0)
    };
    let takes_value = |is_wanted: &dyn Fn(&&clap::Arg) -> bool| {
        options.get_arguments().find(is_wanted).is_some_and(|option| has_value(&option))
    };
    let mut at = command + 1;
    while let Some(word) = args.get(at).and_then(|word| word.to_str()) {
        let mut separate_value = GLOBAL_VALUES.contains(&word);
        if let Some(long) = word.strip_prefix("--").filter(|long| !long.is_empty()) {
            separate_value |= takes_value(&|option| option.get_long() == Some(long));
        } else if let Some(shorts) = word.strip_prefix('-').filter(|shorts| !shorts.is_empty() && *shorts != "-") {
            // Of several letters, the rest of the word is the value of the first that has one.
            for (place, letter) in shorts.char_indices() {
                let is_last = place + letter.len_utf8() == shorts.len();
                if letter == 'm' {
                    let end = if is_last { at + 2 } else { at + 1 };
                    return (end <= args.len()).then_some(end);
                }
                if takes_value(&|option| option.get_short() == Some(letter)) {
                    separate_value = is_last;
                    break;
                }
            }
        } else {
            return None;
        }
        at += if separate_value { 2 } else { 1 };
    }
    None
}

/// Parses a directory of the guest.
fn guest_dir(text: &str) -> Result<GuestPath, String> {
    let path = text.strip_suffix('/').filter(|path| !path.is_empty()).unwrap_or(text);
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/work/{path}") };
    GuestPath::new(path).map_err(|error| error.rule.to_string())
}

/// Drops the `--` that may separate a program from its arguments.
fn without_separator(words: &[OsString]) -> &[OsString] {
    match words.split_first() {
        Some((first, rest)) if first == "--" => rest,
        _ => words,
    }
}

fn text(word: &OsStr) -> Result<String, RunnerError> {
    let fault =
        || RunnerError::new(ResultKind::InvalidRequest, format!("cannot pass the argument {word:?}: it is not UTF-8"));
    word.to_str().map(str::to_owned).ok_or_else(fault)
}

fn no_program() -> RunnerError {
    RunnerError::new(ResultKind::InvalidRequest, "no program to run")
        .with_fix("pass a file, program text with -c, - to read standard input, or a command after --")
}
