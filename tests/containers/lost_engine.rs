//! O4 and O5: an engine that dies or stalls. The machine's engines serve other processes too, so the tests kill and
//! stop a second Podman server on a separate socket.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use codebox_testkit::Codebox;
use tempfile::TempDir;

use crate::engine::Engine;
use crate::row::{Row, row};
use crate::running_jobs::{WAITING_PROGRAM, while_running};
use crate::test_env::TestEnvironment;

/// Reason why Docker's rows are ignored.
const DOCKER_EXCLUSION: &str =
    "a Docker server of its own would need networks and storage of its own; Podman's is tried";

pub fn rows() -> Vec<Row> {
    let rows = [
        row("O4::killed_while_it_runs", killed_while_it_runs),
        row("O4::dead_before_start", dead_before_start),
        row("O5::stalled_before_start", stalled_before_start),
        row("O5::stalled_while_it_runs", stalled_while_it_runs),
    ];
    let mut rows: Vec<Row> = rows.map(|row| row.except(Engine::Docker, DOCKER_EXCLUSION)).into();
    rows.push(row("O4::removed_while_it_runs", removed_while_it_runs));
    rows
}

/// Deadline for runs with a stalled engine; only a hanging run reaches it.
const RUN_DEADLINE: Duration = Duration::from_secs(300);

/// Podman server; killed when dropped.
struct PodmanServer {
    child: Child,
    socket: PathBuf,
    _folder: TempDir,
}

impl PodmanServer {
    fn start() -> Result<Self> {
        // The system's temporary directory is used because a socket path has a short maximum length.
        let folder = tempfile::Builder::new().prefix("codebox-test-").tempdir()?;
        let socket = folder.path().join("podman.sock");
        let mut command = Command::new("podman");
        command.args(["system", "service", "--time=0"]).arg(format!("unix://{}", socket.display()));
        // A container's monitor leaves files in the working directory of its server.
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self { child: command.spawn()?, socket, _folder: folder };
        let until = Instant::now() + Duration::from_secs(60);
        while UnixStream::connect(&server.socket).is_err() {
            ensure!(Instant::now() < until, "a second podman did not start in time");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Points codebox at this server.
    fn configure(&self, job: Codebox) -> Codebox {
        job.env("CONTAINER_HOST", format!("unix://{}", self.socket.display())).deadline(RUN_DEADLINE)
    }

    fn signal(&self, name: &str) -> Result<()> {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status()?;
        ensure!(status.success(), "kill {name}: {status}");
        Ok(())
    }
}

impl Drop for PodmanServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A dead engine is reported as such and codebox ends; the remains are removed through the machine's engine.
fn killed_while_it_runs(test_env: &TestEnvironment) -> Result<()> {
    let server = PodmanServer::start()?;
    let job = server.configure(test_env.run_granted()).args(["--timeout", "600s", "--lang", "python", "-c"]);
    let (result, ()) = while_running(test_env, job.arg(printing_program()), |_| server.signal("-KILL"))?;
    ensure!(!result.timed_out, "timed out");
    let report = result.report()?;
    let ended = (report.kind(), result.code);
    ensure!(ended == ("engine_lost", Some(125)), "unexpected result {ended:?}: {:.600}", report.json().to_string());
    let partial = report.at("/partial");
    ensure!(partial["stdout"] == "so far\n" && partial["stderr"] == "as well\n", "partial output is {partial}");
    test_env.canaries.check(&result)?;
    check_gc_removes_all(test_env)
}

/// Returns a program that prints, and keeps running long after its output has arrived.
fn printing_program() -> String {
    let endless_program = WAITING_PROGRAM.replace("/data/go", "/data/never");
    format!("import sys, time\nprint('so far')\nprint('as well', file=sys.stderr)\ntime.sleep(2)\n{endless_program}")
}

/// A container that another process removes ends its job as if it had been killed; its output is kept.
fn removed_while_it_runs(test_env: &TestEnvironment) -> Result<()> {
    let job = test_env.run_granted().args(["--timeout", "600s", "--lang", "python", "-c"]);
    let (result, ()) = while_running(test_env, job.arg(printing_program()), |id| {
        test_env.engine.run_cli(&["rm", "--force", id]).map(drop)
    })?;
    let report = test_env.check_run(&result)?;
    ensure!(report.at("/outcome/signal") == 9, "unexpected result: {}", report.at("/outcome"));
    ensure!(
        (report.stdout(), report.stderr()) == ("so far\n", "as well\n"),
        "partial output is {:.600}",
        report.json().to_string()
    );
    Ok(())
}

/// A missing engine is reported before anything is created.
fn dead_before_start(test_env: &TestEnvironment) -> Result<()> {
    let server = PodmanServer::start()?;
    server.signal("-KILL")?;
    let configured = server.configure(test_env.run());
    drop(server);
    let result = configured.args(["--lang", "python", "-c", "print('it ran')"]).run()?;
    ensure!(!result.timed_out, "timed out");
    // The named engine is dead; codebox may find another one at a default address.
    let report = result.report()?;
    ensure!(
        matches!(report.kind(), "ok" | "engine_unavailable"),
        "unexpected result: {:.600}",
        report.json().to_string()
    );
    Ok(())
}

/// The wait for an engine that accepts a connection and does not respond is limited.
fn stalled_before_start(test_env: &TestEnvironment) -> Result<()> {
    let server = PodmanServer::start()?;
    server.signal("-STOP")?;
    let result = server.configure(test_env.run()).args(["--lang", "python", "-c", "print('it ran')"]).run();
    server.signal("-CONT")?;
    let result = result?;
    ensure!(!result.timed_out, "timed out");
    let report = result.report()?;
    let is_expected = matches!(report.kind(), "ok" | "engine_unavailable" | "engine_lost");
    ensure!(is_expected, "unexpected result: {:.600}", report.json().to_string());
    Ok(())
}

/// A job's time limit holds even if its engine stalls.
fn stalled_while_it_runs(test_env: &TestEnvironment) -> Result<()> {
    let server = PodmanServer::start()?;
    let job = server.configure(test_env.run_granted()).args(["--timeout", "5s", "--lang", "python", "-c"]);
    let endless_program = WAITING_PROGRAM.replace("/data/go", "/data/never");
    let (result, ()) = while_running(test_env, job.arg(endless_program), |_| server.signal("-STOP"))?;
    server.signal("-CONT")?;
    ensure!(!result.timed_out, "timed out");
    let report = result.report()?;
    let is_expected = matches!(report.kind(), "timeout_wall" | "engine_lost");
    ensure!(is_expected, "unexpected result: {:.600}", report.json().to_string());
    check_gc_removes_all(test_env)
}

/// Removes the remains through the machine's own engine.
fn check_gc_removes_all(test_env: &TestEnvironment) -> Result<()> {
    crate::residue::wait_until_empty(|| {
        let result = test_env.codebox().arg("gc").run()?;
        ensure!(result.code == Some(0), "gc: {} {}", result.stdout_text(), result.stderr_text());
        test_env.containers()
    })
}
