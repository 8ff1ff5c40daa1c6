//! Arguments of `codebox box`.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use codebox_core::{
    BoxSettings, CommandRules, Isolation, IsolationSet, Limit, OutputShape, SessionContainer, Truncation, is_box_name,
    parse_duration,
};
use codebox_service::{Preference, Request};

use super::session::GrantArgs;
use super::values::engine;

/// Commands with shims, if the user names none: those that read files and search in them, whose output is long.
const DEFAULT_SHIMS: [&str; 17] = [
    "awk", "cat", "cut", "diff", "find", "git", "grep", "head", "jq", "ls", "rg", "sed", "sort", "tail", "tree",
    "uniq", "wc",
];

#[derive(Debug, Subcommand)]
pub(crate) enum BoxCommands {
    /// Start a box and print its name
    ///
    /// A box is a container that runs commands until it is stopped: from `box exec`, from any number of callers at once, and from the
    /// engine's own `exec` under the same name. The limits on time and output apply to each command, the others to the box, which has 4096 open
    /// files and 1024 processes by default. Packages, secrets and a limit on processor time are refused.
    Start(Box<BoxStartArgs>),
    /// Run a command in a box
    ///
    /// Standard streams, signals and the exit status pass through: 127 for a command that does not exist, 126 for one that cannot be
    /// executed or is not allowed, 124 for one that took too long, 128 and the number for a signal. Output beyond the limits of the box is cut, and
    /// ends with `...[truncated]`; the message names the file that has all of it.
    #[command(override_usage = "codebox box exec [OPTIONS] <NAME> -- <COMMAND>...")]
    Exec(Box<BoxExecArgs>),
    /// List the boxes
    List {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Show the commands that ran in a box
    Logs {
        /// Name of the box
        name: String,
        /// Number of commands, the latest last
        #[arg(long, value_name = "COUNT", default_value_t = 100)]
        last: usize,
        /// Print one JSON document for each command, one a line
        #[arg(long)]
        json: bool,
    },
    /// Stop boxes, and remove their containers, logs and files
    Stop {
        /// Names of the boxes
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

/// Arguments of `codebox box start`.
#[derive(Debug, Args)]
pub(crate) struct BoxStartArgs {
    /// Name of the box and of its container [default: box- and a random number]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub name: Option<String>,
    /// Container image [default: the one of commands in the configuration]
    #[arg(long, value_name = "NAME")]
    pub image: Option<String>,
    /// Container engine to use
    #[arg(long, value_name = "ENGINE", value_parser = engine())]
    pub engine: Option<String>,
    /// Place of the container: on this machine, or in the virtual machine [default: the first one that is available]
    #[arg(long, value_name = "WHERE", value_parser = ["container", "vm"])]
    pub isolation: Option<String>,
    /// Stop the box when it has not been used for this time, such as 30m, or never
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_idle)]
    pub idle: Idle,
    /// Stop the box when the process with this number has ended
    #[arg(long, value_name = "PID")]
    pub owner: Option<u32>,
    /// Give this command a shim; repeatable [default: awk cat cut diff find git grep head jq ls rg sed sort tail tree uniq wc]
    ///
    /// A shim passes calls of the command to the agent of the box, which cuts the output that reaches the caller, applies the rules and
    /// records the call. Commands that the image does not have get none.
    #[arg(long = "shim", value_name = "COMMAND", value_parser = parse_command)]
    pub shims: Vec<String>,
    /// Give no command a shim
    #[arg(long, conflicts_with = "shims")]
    pub no_shims: bool,
    /// Output that is cut: what reaches the caller, the output of every command with a shim as well, or none
    #[arg(long, value_name = "WHAT", value_enum, default_value = "capture")]
    pub truncate: Truncate,
    /// Maximum number of bytes of each output stream that the caller gets
    #[arg(long, value_name = "COUNT", default_value = "4000")]
    pub output_bytes: NonZeroU64,
    /// Maximum number of lines of each output stream that the caller gets
    #[arg(long, value_name = "COUNT", default_value = "200")]
    pub output_lines: NonZeroU64,
    /// Allow only this command, over the agent and over shims; repeatable
    #[arg(long = "allow-command", value_name = "COMMAND", value_parser = parse_command)]
    pub allow: Vec<String>,
    /// Deny this command, over the agent and over shims; repeatable
    ///
    /// A program that calls another one by its path is not subject to these rules: the grants and limits of the box are.
    #[arg(long = "deny-command", value_name = "COMMAND", value_parser = parse_command)]
    pub deny: Vec<String>,
    /// Limit the time of a command, over the agent and over shims, such as rg=10s; repeatable
    #[arg(long = "command-timeout", value_name = "COMMAND=DURATION", value_parser = parse_command_timeout)]
    pub timeouts: Vec<(String, Duration)>,
    /// Grants and limits
    #[command(flatten)]
    pub grants: GrantArgs,
}

/// Time without use after which a box ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Idle {
    Never,
    After(Duration),
}

/// Output that is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Truncate {
    Capture,
    Every,
    Off,
}

/// Arguments of `codebox box exec`.
#[derive(Debug, Args)]
pub(crate) struct BoxExecArgs {
    /// Name of the box
    pub name: String,
    /// Give the command a terminal, which needs one as standard input
    #[arg(short = 't', long)]
    pub tty: bool,
    /// Do not cut the output
    #[arg(long)]
    pub full: bool,
    /// Working directory of the command in the box [default: /work]
    #[arg(short = 'w', long, value_name = "PATH")]
    pub workdir: Option<String>,
    /// Set a variable of the command; repeatable
    #[arg(long = "env", value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// Kill the command after this time, such as 30s
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub timeout: Option<Limit<Duration>>,
    /// Do not pass standard input on
    #[arg(long)]
    pub no_stdin: bool,
    /// Print one JSON document with the output and the facts about the run
    #[arg(long, conflicts_with = "tty")]
    pub json: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}

impl BoxStartArgs {
    /// Returns the request of the box, and its settings with a name.
    pub(crate) fn into_parts(self) -> (Request, SessionContainer, BoxSettings) {
        let Self {
            name,
            image,
            engine,
            isolation,
            idle: _,
            owner: _,
            shims,
            no_shims,
            truncate,
            output_bytes,
            output_lines,
            allow,
            deny,
            timeouts,
            grants,
        } = self;
        let container = SessionContainer { image: image.clone(), engine: engine.clone() };
        let isolation = match isolation.as_deref() {
            Some("container") => Preference::Only(Isolation::Container),
            Some(_) => Preference::Only(Isolation::Vm),
            None => IsolationSet::of([Isolation::Container, Isolation::Vm]).map_or(Preference::Auto, Preference::Among),
        };
        let request = Request { image, engine, isolation, ..grants.request(None) };
        let shims = match (no_shims, shims.is_empty()) {
            (true, _) => BTreeSet::default(),
            (false, true) => DEFAULT_SHIMS.map(str::to_owned).into(),
            (false, false) => shims.into_iter().collect(),
        };
        let allow = (!allow.is_empty()).then(|| allow.into_iter().collect());
        let settings = BoxSettings {
            name,
            env: BTreeMap::default(),
            shims,
            shape: OutputShape { max_bytes: output_bytes, max_lines: output_lines },
            truncation: match truncate {
                Truncate::Capture => Truncation::Capture,
                Truncate::Every => Truncation::Every,
                Truncate::Off => Truncation::Off,
            },
            rules: CommandRules { allow, deny: deny.into_iter().collect(), wall: timeouts.into_iter().collect() },
        };
        (request, container, settings)
    }
}

fn parse_name(text: &str) -> Result<String, String> {
    if is_box_name(text) {
        return Ok(text.to_owned());
    }
    Err("a name has 2 to 63 letters, digits, _, . and -, begins with a letter or digit, and not with codebox-"
        .to_owned())
}

fn parse_command(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && !text.contains('/') && text != "." && text != "..";
    if is_name { Ok(text.to_owned()) } else { Err("expected the name of a command without a directory".to_owned()) }
}

fn parse_idle(text: &str) -> Result<Idle, String> {
    if text == "never" {
        return Ok(Idle::Never);
    }
    match parse_duration(text).map_err(|error| error.to_string())? {
        Limit::At(time) => Ok(Idle::After(time)),
        Limit::Unlimited => Ok(Idle::Never),
    }
}

fn parse_command_timeout(text: &str) -> Result<(String, Duration), String> {
    let (name, time) = text.split_once('=').ok_or("expected COMMAND=DURATION")?;
    match parse_duration(time).map_err(|error| error.to_string())? {
        Limit::At(time) => Ok((parse_command(name)?, time)),
        Limit::Unlimited => Err("expected a time".to_owned()),
    }
}
