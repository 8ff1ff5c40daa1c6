//! A cold container job against the engine's own command line, with the same image and the same flags.

use std::process::{Command, Stdio};

use anyhow::Result;

use super::Contest;
use super::table::{Measured, Row};
use super::timing::{Subject, in_turns};

const IMAGE: &str = "localhost/codebox-test:1";
const PROGRAM: &str = "print(1)";

const PODMAN: &str = "cold container job, `print(1)`, vs `podman run` of the same image and flags";
const DOCKER: &str = "cold container job, `print(1)`, vs `docker run` of the same image and flags";

/// What codebox gives a container, in the words of both engines' command lines.
const FLAGS: [&str; 26] = [
    "--rm",
    "--network",
    "none",
    "--read-only",
    "--cap-drop",
    "ALL",
    "--security-opt",
    "no-new-privileges",
    "--user",
    "1900000000:1900000000",
    "--memory",
    "1g",
    "--memory-swap",
    "1g",
    "--pids-limit",
    "72",
    "--ulimit",
    "core=0:0",
    "--ulimit",
    "nofile=256:256",
    "--ulimit",
    "nproc=4096:4096",
    "--ipc",
    "private",
    "--log-driver",
    "none",
];

/// Against `podman run`.
///
/// # Errors
/// When an answer is wrong.
pub fn podman(contest: &Contest) -> Result<Row> {
    compare(contest, "podman", PODMAN)
}

/// Against `docker run`.
///
/// # Errors
/// When an answer is wrong.
pub fn docker(contest: &Contest) -> Result<Row> {
    compare(contest, "docker", DOCKER)
}

fn compare(contest: &Contest, engine: &'static str, what: &'static str) -> Result<Row> {
    let row = |measured| Row { what, bar: Some(1.1), measured };
    let mut native = Command::new(engine);
    native.arg("run").args(FLAGS).args([IMAGE, "python3", "-u", "-B", "-c", PROGRAM]);
    let ready = native.stdin(Stdio::null()).output().is_ok_and(|output| output.stdout == b"1\n");
    if !ready {
        return Ok(row(Err(format!("no {engine} with the image {IMAGE}; run tests/engines/up"))));
    }
    let mut codebox = contest.codebox();
    codebox.args(["--isolation", "container", "--engine", engine, "--image", IMAGE, "--lang", "python", "-c", PROGRAM]);
    let runs = contest.runs.long * 3;
    let medians =
        in_turns(Subject { command: codebox, answer: "1\n" }, Subject { command: native, answer: "1\n" }, runs)?;
    Ok(row(Ok(Measured::of(&medians, format!("{runs} each")))))
}
