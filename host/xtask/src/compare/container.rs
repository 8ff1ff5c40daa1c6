//! Container jobs, cold and ready, compared with the engine's own CLI with the same image and flags.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::BenchInputs;
use super::table::{Measurement, Row};
use super::timing::{Subject, run_alternately};
use crate::project::output_of;

const IMAGE: &str = "localhost/codebox-test:1";
const PROGRAM: &str = "print(1)";

const PODMAN: &str = "cold container job, `print(1)`, vs `podman run` of the same image and flags";
const DOCKER: &str = "cold container job, `print(1)`, vs `docker run` of the same image and flags";

const PODMAN_READY: &str = "ready container (`--warm`), `print(1)`, vs `podman run`";
const DOCKER_READY: &str = "ready container (`--warm`), `print(1)`, vs `docker run`";

/// Options that codebox sets for a container, as both engines' CLIs spell them.
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

/// Compares a cold container with `podman run`.
///
/// # Errors
/// Fails if an output is wrong.
pub fn podman(inputs: &BenchInputs) -> Result<Row> {
    compare(inputs, "podman", PODMAN)
}

/// Compares a cold container with `docker run`.
///
/// # Errors
/// Fails if an output is wrong.
pub fn docker(inputs: &BenchInputs) -> Result<Row> {
    compare(inputs, "docker", DOCKER)
}

/// Compares ready containers with `podman run`.
///
/// # Errors
/// Fails if an output is wrong or the containers do not become ready.
pub fn podman_ready(inputs: &BenchInputs) -> Result<Row> {
    compare_ready(inputs, "podman", PODMAN_READY)
}

/// Compares ready containers with `docker run`.
///
/// # Errors
/// Fails if an output is wrong or the containers do not become ready.
pub fn docker_ready(inputs: &BenchInputs) -> Result<Row> {
    compare_ready(inputs, "docker", DOCKER_READY)
}

fn compare(inputs: &BenchInputs, engine: &'static str, what: &'static str) -> Result<Row> {
    let row = |measurement| Row { what, max_ratio: Some(1.1), measurement };
    let native = match native(engine) {
        Ok(native) => native,
        Err(why) => return Ok(row(Err(why))),
    };
    let runs = inputs.runs.long * 3;
    let codebox = Subject { command: codebox(inputs, engine, &[]), expected_output: "1\n" };
    let medians = run_alternately(codebox, Subject { command: native, expected_output: "1\n" }, runs)?;
    Ok(row(Ok(Measurement::of(&medians, format!("{runs} each")))))
}

/// Compares ready containers with the engine's CLI. More containers are ready before the first run than there are runs,
/// so that no run starts a cold one.
fn compare_ready(inputs: &BenchInputs, engine: &'static str, what: &'static str) -> Result<Row> {
    const READY: usize = 16;
    let row = |measurement| Row { what, max_ratio: Some(0.35), measurement };
    let native = match native(engine) {
        Ok(native) => native,
        Err(why) => return Ok(row(Err(why))),
    };
    let before = running(engine)?;
    let mut first = codebox(inputs, engine, &["--warm", &READY.to_string()]);
    output_of(&mut first)?;
    let until = Instant::now() + Duration::from_secs(120);
    while running(engine)? < before + READY {
        if Instant::now() > until {
            bail!("{engine} has no containers ready after two minutes");
        }
        thread::sleep(Duration::from_millis(200));
    }
    let runs = (inputs.runs.long * 3).min(READY - 1);
    let codebox_ready =
        Subject { command: codebox(inputs, engine, &["--warm", &READY.to_string()]), expected_output: "1\n" };
    let medians = run_alternately(codebox_ready, Subject { command: native, expected_output: "1\n" }, runs);
    output_of(&mut codebox(inputs, engine, &["--warm", "0"]))?;
    Ok(row(Ok(Measurement::of(&medians?, format!("{runs} each")))))
}

fn codebox(inputs: &BenchInputs, engine: &str, options: &[&str]) -> Command {
    let mut command = inputs.codebox();
    command.args(["--isolation", "container", "--engine", engine, "--image", IMAGE, "--lang", "python"]);
    command.args(options).args(["-c", PROGRAM]);
    command
}

/// Returns the engine's own command, or the reason why it cannot be used.
fn native(engine: &str) -> Result<Command, String> {
    let mut native = Command::new(engine);
    native.arg("run").args(FLAGS).args([IMAGE, "python3", "-u", "-B", "-c", PROGRAM]);
    let ready = native.stdin(Stdio::null()).output().is_ok_and(|output| output.stdout == b"1\n");
    if ready { Ok(native) } else { Err(format!("no {engine} with the image {IMAGE}; run tests/engines/up")) }
}

/// Counts codebox's running containers.
fn running(engine: &str) -> Result<usize> {
    let mut list = Command::new(engine);
    Ok(output_of(list.args(["ps", "--quiet", "--filter", "label=codebox.home"]))?.lines().count())
}
