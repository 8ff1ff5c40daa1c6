use std::path::Path;
use std::time::Duration;

use codebox_core::{Access, ByteSize, Isolation, Limit, LimitKind, Limits};
use codebox_service::{EnvRequest, Preference};

use super::run::ProgramLocation;
use super::*;

fn parse(line: &[&str]) -> Cli {
    let words = mark_separator(line.iter().map(Into::into).collect());
    Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line:?}: {error}"))
}

fn run(words: &[&str]) -> RunArgs {
    match parse(&[&["codebox", "run"], words].concat()).command {
        Command::Run(args) => *args,
        other => panic!("{other:?}"),
    }
}

fn file(name: &str) -> ProgramLocation {
    ProgramLocation::File(PathBuf::from(name))
}

#[test]
fn splits_arguments_like_python() {
    let inline = |code: &str| ProgramLocation::Inline(code.to_owned());
    let module = |name: &str| ProgramLocation::Module(name.to_owned());
    let table: Vec<(&[&str], ProgramLocation, &[&str])> = vec![
        (&["x.py"], file("x.py"), &[]),
        (&["x.py", "a", "--flag"], file("x.py"), &["a", "--flag"]),
        (&["x.py", "--json", "-q"], file("x.py"), &["--json", "-q"]),
        (&["x.py", "-c", "1"], file("x.py"), &["-c", "1"]),
        (&["x.py", "--help"], file("x.py"), &["--help"]),
        (&["x.py", "--", "a", "--b"], file("x.py"), &["a", "--b"]),
        (&["x.py", "--", "--"], file("x.py"), &["--"]),
        (&["x.py", "a", "--", "b"], file("x.py"), &["a", "--", "b"]),
        (&["./-x.py", "a"], file("./-x.py"), &["a"]),
        (&["--", "ls", "-l"], ProgramLocation::Command, &["ls", "-l"]),
        (&["--image", "a:b", "--", "sh", "-c", "x", "--"], ProgramLocation::Command, &["sh", "-c", "x", "--"]),
        (&["-q", "x.py", "-v"], file("x.py"), &["-v"]),
        (&["-c", "1"], inline("1"), &[]),
        (&["-c", "-1"], inline("-1"), &[]),
        (&["-c", "1", "a", "--b"], inline("1"), &["a", "--b"]),
        (&["-c", "1", "--", "--b"], inline("1"), &["--b"]),
        (&["-c", "1", "a", "--", "b"], inline("1"), &["a", "--", "b"]),
        (&["-"], ProgramLocation::Stdin, &[]),
        (&["-", "a", "-"], ProgramLocation::Stdin, &["a", "-"]),
        (&["x.py", ""], file("x.py"), &[""]),
        (&["x.py", "-m", "a"], file("x.py"), &["-m", "a"]),
        (&["-c", "-m", "a"], inline("-m"), &["a"]),
        (&["-m", "a.b", "-q", "--json", "--", "x"], module("a.b"), &["-q", "--json", "--", "x"]),
        (&["-ma.b", "--help"], module("a.b"), &["--help"]),
        (&["-qm", "a", "-v"], module("a"), &["-v"]),
        (&["--show", "--log", "debug", "-rm", "-m", "a", "--flag"], module("a"), &["--flag"]),
        (&["--timeout", "1s", "--dir=.", "-m", "a", "run", "-m", "b"], module("a"), &["run", "-m", "b"]),
    ];
    for (line, program, args) in table {
        let found = run(line).program().expect("a program");
        assert_eq!(found.0, program, "{line:?}");
        assert_eq!(found.1, args, "{line:?}");
    }
}

#[test]
fn missing_program_is_reported_with_fix() {
    let failure = run(&[]).program().expect_err("nothing to run");
    assert_eq!(failure.exit_status(), 125);
    assert!(failure.fix().is_some_and(|fix| fix.contains("-c")));
}

#[cfg(unix)]
#[test]
fn rejects_non_utf8_arguments() {
    use std::os::unix::ffi::OsStrExt;
    let mut args = run(&["x.py"]);
    args.words.push(std::ffi::OsStr::from_bytes(b"\xff").to_owned());
    let failure = args.program().expect_err("not UTF-8");
    assert!(failure.message().contains("\\xFF"), "{}", failure.message());
}

#[test]
fn parses_options() {
    let args = run(&[
        "--json",
        "--timeout",
        "5s",
        "--memory=256M",
        "--max-output",
        "1M",
        "--max-open-files",
        "8",
        "--cpu-time",
        "unlimited",
        "--env",
        "TOKEN",
        "--env",
        "MODE=a=b",
        "--dir",
        "./data:/data:ro",
        "--dir",
        ".:/work:rw",
        "--isolation",
        "wasm",
        "--out",
        "here",
        "--no-confine",
        "x.py",
    ]);
    assert!(args.json && args.no_confine);
    let limits = args.limits.overrides();
    assert_eq!(limits.wall, Some(Limit::At(Duration::from_secs(5))));
    assert_eq!(limits.memory, Some(Limit::At(ByteSize::mib(256))));
    assert_eq!(limits.cpu, Some(Limit::Unlimited));
    let required: Vec<_> = limits.required().collect();
    assert!(required.contains(&LimitKind::OpenFiles) && !required.contains(&LimitKind::Cpu));
    assert!(matches!(&args.env[0], EnvRequest::FromHost(name) if name.as_str() == "TOKEN"));
    assert!(matches!(&args.env[1], EnvRequest::Set(_, value) if value == "a=b"));
    assert_eq!(args.dirs[0].access, Access::ReadOnly);
    assert_eq!((args.dirs[1].host.as_str(), args.dirs[1].access), (".", Access::ReadWrite));
    assert_eq!(args.isolation, Preference::Only(Isolation::Wasm));
    assert_eq!(args.out.as_deref(), Some(Path::new("here")));
}

#[test]
fn help_states_actual_defaults() {
    let mut cli = <Cli as clap::CommandFactory>::command();
    let run_command = cli.find_subcommand_mut("run").expect("it is there");
    let mut line = Vec::new();
    for arg in run_command.get_arguments() {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        if let Some((_, default)) = help.split_once("[default: ") {
            let option = arg.get_long().expect("limits have long names");
            line.push(format!("--{option}={}", default.trim_end_matches(']')));
        }
    }
    assert_eq!(line.len(), 11, "{line:?}");
    let words: Vec<&str> = line.iter().map(String::as_str).chain(["x.py"]).collect();
    assert_eq!(run(&words).limits.cpus(), None);
    let named = run(&words).limits.overrides().apply_to(Limits::default());
    assert_eq!(named, Limits::default());
}

#[test]
fn rejects_invalid_command_lines() {
    let bad: &[&[&str]] = &[
        &[],
        &["nonsense"],
        &["run", "--nonsense", "x.py"],
        &["run", "-q", "-v", "x.py"],
        &["run", "--timeout", "0", "x.py"],
        &["run", "--timeout", "-5s", "x.py"],
        &["run", "--memory", "1e3", "x.py"],
        &["run", "--max-open-files", "5000000000", "x.py"],
        &["run", "--dir", "..", "x.py"],
        &["run", "--dir", ".:work", "x.py"],
        &["run", "--env", "=x", "x.py"],
        &["run", "--json", "--json", "x.py"],
        &["image", "build", "mine"],
        &["runtime", "install", "a", "b"],
        &["help"],
    ];
    for line in bad {
        let line = [&["codebox"], *line].concat();
        assert!(Cli::try_parse_from(&line).is_err(), "{line:?}");
    }
}

#[test]
fn parses_other_commands() {
    let command = parse(&["codebox", "runtime", "install", "--from", "p.whl"]).command;
    assert!(matches!(
        command,
        Command::Runtime(RuntimeCommand::Install { name, from: Some(_) }) if name == "python"
    ));
    let command = parse(&["codebox", "image", "build", "mine", "--import", "a,b.c"]).command;
    assert!(matches!(
        command,
        Command::Image(ImageCommand::Build { import, .. }) if import == ["a", "b.c"]
    ));
    assert!(matches!(
        parse(&["codebox", "-v", "doctor"]),
        Cli { verbosity: VerbosityArgs { verbose: true, .. }, command: Command::Doctor { json: false }, .. }
    ));
    assert!(matches!(parse(&["codebox", "completions", "fish"]).command, Command::Completions { .. }));
}

#[test]
fn clap_definition_is_consistent() {
    <Cli as clap::CommandFactory>::command().debug_assert();
}

#[test]
fn a_file_alone_is_run() {
    let of = |line: &[&str]| with_run(line.iter().map(Into::into).collect());
    for (line, expected) in [
        (&["codebox", "a.py", "doctor"][..], &["codebox", "run", "a.py", "doctor"][..]),
        (&["codebox", "./tool"], &["codebox", "run", "./tool"]),
        (&["codebox", "doctor"], &["codebox", "doctor"]),
        (&["codebox", "--log=a.json", "doctor"], &["codebox", "--log=a.json", "doctor"]),
        (&["codebox", "run", "a.py"], &["codebox", "run", "a.py"]),
        (&["codebox"], &["codebox"]),
    ] {
        assert_eq!(of(line), expected, "{line:?}");
    }
    let Command::Run(args) = parse(&["codebox", "run", "a.py", "--json"]).command else { panic!("a run") };
    assert!(!args.json, "the words after the file are its arguments");
}

#[test]
fn versions_name_images() {
    for (line, image) in [
        (&["--python", "3.12", "x.py"][..], Some("python:3.12-slim")),
        (&["--node=22", "x.js"], Some("node:22-slim")),
        (&["--image", "debian", "x.py"], Some("debian")),
        (&["x.py"], None),
    ] {
        assert_eq!(run(line).image().as_deref(), image, "{line:?}");
    }
    for line in
        [&["--python", "3.12-alpine"][..], &["--node", "lts"], &["--python", "3", "--image", "a"], &["--python="]]
    {
        let line = [&["codebox", "run"], line, &["x.py"]].concat();
        assert!(Cli::try_parse_from(&line).is_err(), "{line:?}");
    }
}
