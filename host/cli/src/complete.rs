//! Completion of command lines in shells, whose scripts call codebox with the words so far.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use clap::{CommandFactory as _, ValueHint};
use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};
use clap_complete::env::{CompleteEnv, Shells};
use codebox_core::exit;
use serde_json::Value;

use crate::args::Cli;
use crate::render::Escaped;

/// Variable by which a script asks, with the name of its shell.
const VARIABLE: &str = "CODEBOX_COMPLETE";

/// Name of the command in scripts.
const PROGRAM: &str = "codebox";

/// Maximum time for a list of values. A shell waits as long.
const LIST_TIMEOUT: Duration = Duration::from_secs(1);

/// Answers a script with the possible next words, and returns the exit status; `None` if no script asks.
pub(crate) fn answer_shell(args: &[OsString]) -> Option<u8> {
    let shell = std::env::var_os(VARIABLE)?;
    // The variable is removed before values are listed.
    let _ = SHELL.set(shell.to_string_lossy().into_owned());
    let dir = std::env::current_dir().ok();
    let env = CompleteEnv::with_factory(command).var(VARIABLE).bin(PROGRAM).completer(PROGRAM);
    match env.try_complete(args.iter().cloned(), dir.as_deref()) {
        Ok(true) => Some(0),
        Ok(false) => None,
        Err(_) => Some(exit::FAILURE),
    }
}

/// Returns the script for a shell.
///
/// # Errors
/// Returns an error if the shell is not supported.
pub(crate) fn script(shell: clap_complete::Shell) -> std::io::Result<Vec<u8>> {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let completer = shells.completer(&shell.to_string()).ok_or(std::io::ErrorKind::Unsupported)?;
    completer.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
    Ok(script)
}

/// List of values that a command of codebox prints as a JSON document.
#[derive(Debug, Clone, Copy)]
struct ValueList {
    command: &'static [&'static str],
    /// Place of the list in the document.
    pointer: &'static str,
    /// Member of an entry that is the value, and the one that describes it.
    value: &'static str,
    help: &'static str,
}

const SESSIONS: ValueList =
    ValueList { command: &["session", "list", "--json"], pointer: "/sessions", value: "id", help: "language" };
const BOXES: ValueList = ValueList { command: &["box", "list", "--json"], pointer: "", value: "name", help: "image" };
const JOBS: ValueList = ValueList { command: &["jobs", "--json"], pointer: "", value: "id", help: "program" };
const IMAGES: ValueList =
    ValueList { command: &["image", "list", "--json"], pointer: "/images", value: "name", help: "runtime" };
const RUNTIMES: ValueList =
    ValueList { command: &["runtime", "list", "--json"], pointer: "/runtimes", value: "name", help: "version" };
const TOOLS: ValueList =
    ValueList { command: &["tool", "list", "--json"], pointer: "/tools", value: "name", help: "description" };

/// Returns the command line with the lists of values. They are not a part of its definition, which the program for WebAssembly has too.
fn command() -> clap::Command {
    let command = Cli::command().mut_args(|arg| with_value(arg, ""));
    command.mut_subcommands(|command| {
        let group = command.get_name().to_owned();
        with_values(command, &group)
    })
}

/// Adds the lists of values to the arguments of a command below `group`.
fn with_values(command: clap::Command, group: &str) -> clap::Command {
    command.mut_args(|arg| with_value(arg, group)).mut_subcommands(|inner| with_values(inner, group))
}

/// Adds the list of values to an argument of a command below `group`.
fn with_value(arg: clap::Arg, group: &str) -> clap::Arg {
    let list = match (group, arg.get_id().as_str()) {
        (_, "image") => IMAGES,
        ("session", "id" | "ids") => SESSIONS,
        ("jobs" | "audit", "id") => JOBS,
        ("box", "name" | "names") if arg.is_positional() => BOXES,
        ("image", "name") if arg.is_positional() => IMAGES,
        ("runtime", "name") if arg.is_positional() => RUNTIMES,
        ("tool", "name") if arg.is_positional() => TOOLS,
        // The program, its arguments and other files.
        _ if !arg.get_possible_values().is_empty() || !arg.get_action().takes_values() => return arg,
        _ if arg.get_value_hint() == ValueHint::DirPath => {
            return arg.add(ArgValueCompleter::new(|current: &OsStr| paths(&PathCompleter::dir(), current)));
        }
        _ if arg.is_positional() || has_paths(arg.get_value_hint()) => {
            return arg.add(ArgValueCompleter::new(|current: &OsStr| paths(&PathCompleter::any(), current)));
        }
        _ => return arg,
    };
    arg.add(ArgValueCandidates::new(move || list.candidates()))
}

/// Returns true for an option whose value is a path.
fn has_paths(hint: ValueHint) -> bool {
    matches!(hint, ValueHint::AnyPath | ValueHint::FilePath | ValueHint::ExecutablePath)
}

/// Returns the paths that begin with a text.
fn paths(completer: &PathCompleter, current: &OsStr) -> Vec<CompletionCandidate> {
    let mut found = completer.complete(current);
    found.retain(|candidate| is_word(&candidate.get_value().to_string_lossy()));
    found
}

/// Name of the shell that asks.
static SHELL: OnceLock<String> = OnceLock::new();

/// Shells whose scripts quote what they insert.
const QUOTING_SHELLS: [&str; 3] = ["elvish", "fish", "zsh"];

/// Returns true for a text that the shell which asks takes as one word. The scripts of bash and PowerShell insert a value as it is, so that the
/// name of a file that a program has made could be a command. bash completes other names itself if there is no value.
fn is_word(text: &str) -> bool {
    let is_quoted = SHELL.get().is_some_and(|shell| QUOTING_SHELLS.contains(&shell.as_str()));
    let is_plain = |c: char| match is_quoted {
        true => !c.is_control(),
        false => c.is_alphanumeric() || "-_./:@%+".contains(c),
    };
    !text.starts_with(['-', '@']) && text.chars().all(is_plain)
}

impl ValueList {
    fn candidates(self) -> Vec<CompletionCandidate> {
        let document = printed(self.command).and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        let document = document.unwrap_or_default();
        let entries = document.pointer(self.pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let candidate = |entry: &Value| {
            let help = entry[self.help].as_str().and_then(|help| help.lines().next());
            // Names of programs and descriptions are not from codebox.
            let help = help.map(|help| Escaped(help).to_string().into());
            let value = entry[self.value].as_str().filter(|value| is_word(value))?;
            Some(CompletionCandidate::new(value).help(help))
        };
        entries.iter().filter_map(candidate).collect()
    }
}

/// Returns the output of a command of codebox; `None` if it fails or takes too long.
fn printed(args: &[&str]) -> Option<Vec<u8>> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.args(args).env_remove(VARIABLE).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut stdout = child.stdout.take()?;
    let (sender, output) = mpsc::channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        let read = stdout.read_to_end(&mut text);
        sender.send(read.map(|_| text))
    });
    let output = output.recv_timeout(LIST_TIMEOUT);
    if output.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().ok()?;
    output.ok()?.ok().filter(|_| status.success())
}
