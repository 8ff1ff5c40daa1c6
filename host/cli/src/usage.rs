//! Responses to command lines that are not a request: help, the version, and errors.

use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::ErrorKind;
use codebox_core::{ResultKind, RunnerError, exit};

use crate::answer;
use crate::args::Cli;
use crate::messages::{Messages, Verbosity};

/// Prints clap's result and returns the exit status: 0 for requested help, and 125 otherwise.
///
/// Clap's own status 2 is not used, because a guest may exit with it.
pub(crate) fn answer(error: &clap::Error, args: &[OsString]) -> u8 {
    let messages = Messages::new(Verbosity::Normal);
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let printed = answer::print(&error.render().ansi().to_string());
            printed.unwrap_or_else(|failure| {
                messages.fail(&failure);
                failure.exit_status()
            })
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // A failure to print this help cannot be reported.
            let _lost = error.print();
            exit::FAILURE
        }
        _ => {
            let failure = failure(&error.render().to_string(), args);
            if wants_json(args) {
                answer::print_failure(&failure)
            } else {
                messages.fail(&failure);
                failure.exit_status()
            }
        }
    }
}

/// Converts clap's message, which has several paragraphs: `error: …`, an optional `tip: …`, and the usage.
fn failure(rendered: &str, args: &[OsString]) -> RunnerError {
    let mut paragraphs = rendered.split("\n\n");
    let first = paragraphs.next().unwrap_or_default();
    let message = drop_repeated_value(one_line(first.trim_start().trim_start_matches("error: ")));
    if let Some(fix) = unexpected(&message).and_then(neighbour) {
        return RunnerError::new(ResultKind::InvalidRequest, message).with_fix(fix);
    }
    let mut tips = paragraphs.filter_map(|paragraph| paragraph.trim_start().strip_prefix("tip: "));
    let tip = tips.find(|tip| is_useful(tip));
    let fix = tip.and_then(|tip| tip.lines().next()).map(str::to_owned);
    let fix = fix.unwrap_or_else(|| format!("see {} --help", command_words(args)));
    RunnerError::new(ResultKind::InvalidRequest, message).with_fix(fix)
}

/// Returns the option in a message about an unexpected one.
fn unexpected(message: &str) -> Option<&str> {
    let (option, _) = message.strip_prefix("unexpected argument '")?.split_once('\'')?;
    Some(option.split('=').next().unwrap_or(option))
}

/// Returns how an option of `docker run`, `deno` or `uv` is written here.
fn neighbour(option: &str) -> Option<&'static str> {
    Some(match option {
        "-e" | "--allow-env" => "pass a variable with --env NAME=VALUE, or --env NAME for one of this environment",
        "--volume" | "--mount" | "--allow-read" | "--allow-write" => "grant a directory with --dir HOST:GUEST[:ro|rw]",
        "--rm" => "leave it out: nothing of a run is kept",
        "-i" | "--interactive" => "leave it out: standard input is passed to the program; -t is a terminal",
        "-t" | "--tty" => "use it with codebox run or codebox box exec",
        "--network" | "--allow-net" => "grant each host with --net HOST[:PORT]; all others are refused",
        "-w" => "name the directory in which the program starts with --workdir DIR",
        "-p" | "--publish" => "leave it out: programs accept no connections from outside",
        "-d" | "--detach" => "start a container for many commands with codebox box start",
        "-A" | "--allow-all" | "--allow-run" | "--privileged" | "--cap-add" => {
            "grant directories with --dir, hosts with --net and variables with --env; there is no grant for everything"
        }
        "--entrypoint" => "pass the command after --: codebox run --image NAME -- COMMAND",
        "-u" | "--user" => "leave it out: a program has no user of this machine",
        _ => return None,
    })
}

/// Returns false for tips of clap that are wrong here: `'run --option' exists` names an option of some subcommand that is
/// hardly similar, and `to pass '--option' as a value, use '-- --option'` makes a command line of a program's arguments.
fn is_useful(tip: &str) -> bool {
    !tip.trim_end().ends_with("' exists") && !tip.starts_with("to pass '")
}

/// Returns the command in a command line, as far as it is recognized, such as `codebox image build`.
fn command_words(args: &[OsString]) -> String {
    let mut command = Cli::command();
    let mut words = "codebox".to_owned();
    for word in args.iter().skip(1).filter_map(|arg| arg.to_str()) {
        match command.find_subcommand(word).cloned() {
            Some(inner) => {
                words.push_str(&format!(" {word}"));
                command = inner;
            }
            None if word.starts_with('-') => {}
            None => break,
        }
    }
    words
}

fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.join(" ")
}

/// Removes the value from a message about an option's value, if the reason contains the value as well.
fn drop_repeated_value(message: String) -> String {
    let value = message.strip_prefix("invalid value '").and_then(|rest| rest.split_once("' for '"));
    let named = value.and_then(|(value, rest)| Some((value, rest.split_once("': ")?)));
    match named {
        Some((value, (option, reason))) if reason.contains(&format!("{value:?}")) => format!("{option}: {reason}"),
        _ => message,
    }
}

/// Returns true if JSON was requested, as far as an invalid command line shows.
fn wants_json(args: &[OsString]) -> bool {
    args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn failure_of(line: &[&str]) -> (String, String) {
        let error = Cli::try_parse_from(line).expect_err("a mistake");
        let args: Vec<OsString> = line.iter().map(OsString::from).collect();
        let failure = failure(&error.render().to_string(), &args);
        assert_eq!(failure.exit_status(), exit::FAILURE);
        let fix = failure.fix().expect("advice").to_owned();
        (failure.message().to_owned(), fix)
    }

    #[test]
    fn mistakes_take_one_line_and_advise() {
        let (message, fix) = failure_of(&["codebox", "run", "--timeot", "5s", "x.py"]);
        assert_eq!(message, "unexpected argument '--timeot' found");
        assert!(fix.contains("--timeout"), "{fix}");

        for command in ["run", "explain", "lock"] {
            let (message, fix) = failure_of(&["codebox", command, "--bogus", "x.py"]);
            assert_eq!(message, "unexpected argument '--bogus' found");
            assert_eq!(fix, format!("see codebox {command} --help"));
        }

        let (message, fix) = failure_of(&["codebox", "run", "--memory", "lots", "x.py"]);
        assert!(message.contains("--memory") && message.contains("lots"), "{message}");
        assert!(!message.contains('\n'));
        assert_eq!(message.matches("lots").count(), 1, "{message}");
        assert_eq!(fix, "see codebox run --help");

        let (message, _) = failure_of(&["codebox", "run", "--net", "a//b", "x.py"]);
        assert!(message.starts_with("--net <HOST[:PORT]>: invalid network grant \"a//b\": "), "{message}");
        // The reason contains only the name, so the value is kept.
        let (message, _) = failure_of(&["codebox", "run", "--env", "=x", "x.py"]);
        assert!(message.starts_with("invalid value '=x' for '--env <NAME[=VALUE]>': "), "{message}");

        let (message, fix) = failure_of(&["codebox", "-q", "image", "build", "mine"]);
        assert_eq!(fix, "see codebox image build --help");
        assert!(message.contains("--import <MODULES>"), "{message}");

        let (message, _) = failure_of(&["codebox", "run", "--isolation", "jail", "x.py"]);
        assert!(message.contains("[possible values: auto, wasm, container, devcontainer, vm]"), "{message}");
    }

    #[test]
    fn options_of_other_programs_are_answered() {
        for (line, fix) in [
            (&["-e", "A=1"][..], "--env"),
            (&["--volume", "a:/b"], "--dir"),
            (&["--mount=type=bind"], "--dir"),
            (&["--rm"], "nothing of a run is kept"),
            (&["-it"], "standard input"),
            (&["--allow-net"], "--net HOST"),
            (&["--network=none"], "--net HOST"),
            (&["-w", "/x"], "--workdir DIR"),
            (&["--privileged"], "no grant for everything"),
        ] {
            for command in ["run", "explain"] {
                let line = [&["codebox", command], line, &["x.py"]].concat();
                let (message, advice) = failure_of(&line);
                assert!(message.starts_with("unexpected argument '-") && advice.contains(fix), "{line:?}: {advice}");
            }
        }
    }

    #[test]
    fn json_is_seen_in_a_broken_line() {
        let line = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert!(wants_json(&line(&["codebox", "run", "--json", "--nope"])));
        assert!(!wants_json(&line(&["codebox", "run", "--nope", "--", "--json"])));
    }
}
