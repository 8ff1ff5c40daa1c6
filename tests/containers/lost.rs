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
use crate::ground::Ground;
use crate::row::{Row, row};
use crate::watched::{WAITING, during};

/// Reason why Docker's rows are ignored.
const SHARED: &str = "a Docker server of its own would need networks and storage of its own; Podman's is tried";

pub fn rows() -> Vec<Row> {
    let rows = [
        row("O4::killed_while_it_runs", killed_while_it_runs),
        row("O4::dead_before", dead_before),
        row("O5::stalled_before", stalled_before),
        row("O5::stalled_while_it_runs", stalled_while_it_runs),
    ];
    let mut rows: Vec<Row> = rows.map(|row| row.except(Engine::Docker, SHARED)).into();
    rows.push(row("O4::removed_while_it_runs", removed_while_it_runs));
    rows
}

/// Deadline for runs with a stalled engine; only a hanging run reaches it.
const PATIENCE: Duration = Duration::from_secs(300);

/// Podman server; killed when dropped.
struct Server {
    child: Child,
    socket: PathBuf,
    _folder: TempDir,
}

impl Server {
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
            ensure!(Instant::now() < until, "a second podman does not come up");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Points codebox at this server.
    fn used_by(&self, job: Codebox) -> Codebox {
        job.env("CONTAINER_HOST", format!("unix://{}", self.socket.display())).deadline(PATIENCE)
    }

    fn signal(&self, name: &str) -> Result<()> {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status()?;
        ensure!(status.success(), "kill {name}: {status}");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A dead engine is reported as such and codebox ends; the remains are removed through the machine's engine.
fn killed_while_it_runs(ground: &Ground) -> Result<()> {
    let server = Server::start()?;
    let job = server.used_by(ground.run_granted()).args(["--timeout", "600s", "--lang", "python", "-c"]);
    let (ran, ()) = during(ground, job.arg(telling()), |_| server.signal("-KILL"))?;
    ensure!(!ran.hung, "it hung");
    let report = ran.report()?;
    let ended = (report.kind(), ran.code);
    ensure!(ended == ("engine_lost", Some(125)), "it ended as {ended:?}: {:.600}", report.json().to_string());
    let partial = report.at("/partial");
    ensure!(partial["stdout"] == "so far\n" && partial["stderr"] == "as well\n", "it keeps {partial}");
    ground.canaries.check(&ran)?;
    tidied(ground)
}

/// Returns a program that prints, and keeps running long after its output has arrived.
fn telling() -> String {
    let forever = WAITING.replace("/data/go", "/data/never");
    format!("import sys, time\nprint('so far')\nprint('as well', file=sys.stderr)\ntime.sleep(2)\n{forever}")
}

/// A container that another process removes ends its job as if it had been killed; its output is kept.
fn removed_while_it_runs(ground: &Ground) -> Result<()> {
    let job = ground.run_granted().args(["--timeout", "600s", "--lang", "python", "-c"]);
    let (ran, ()) = during(ground, job.arg(telling()), |id| ground.engine.says(&["rm", "--force", id]).map(drop))?;
    let report = ground.judge(&ran)?;
    ensure!(report.at("/outcome/signal") == 9, "it ended as {}", report.at("/outcome"));
    ensure!(
        (report.stdout(), report.stderr()) == ("so far\n", "as well\n"),
        "it keeps {:.600}",
        report.json().to_string()
    );
    Ok(())
}

/// A missing engine is reported before anything is created.
fn dead_before(ground: &Ground) -> Result<()> {
    let server = Server::start()?;
    server.signal("-KILL")?;
    let named = server.used_by(ground.run());
    drop(server);
    let ran = named.args(["--lang", "python", "-c", "print('it ran')"]).run()?;
    ensure!(!ran.hung, "it hung");
    // The named engine is dead; codebox may find another one at a default address.
    let report = ran.report()?;
    ensure!(matches!(report.kind(), "ok" | "engine_unavailable"), "it ended as {:.600}", report.json().to_string());
    Ok(())
}

/// The wait for an engine that accepts a connection and does not respond is limited.
fn stalled_before(ground: &Ground) -> Result<()> {
    let server = Server::start()?;
    server.signal("-STOP")?;
    let ran = server.used_by(ground.run()).args(["--lang", "python", "-c", "print('it ran')"]).run();
    server.signal("-CONT")?;
    let ran = ran?;
    ensure!(!ran.hung, "it hung");
    let report = ran.report()?;
    let told = matches!(report.kind(), "ok" | "engine_unavailable" | "engine_lost");
    ensure!(told, "it ended as {:.600}", report.json().to_string());
    Ok(())
}

/// A job's time limit holds even if its engine stalls.
fn stalled_while_it_runs(ground: &Ground) -> Result<()> {
    let server = Server::start()?;
    let job = server.used_by(ground.run_granted()).args(["--timeout", "5s", "--lang", "python", "-c"]);
    let forever = WAITING.replace("/data/go", "/data/never");
    let (ran, ()) = during(ground, job.arg(forever), |_| server.signal("-STOP"))?;
    server.signal("-CONT")?;
    ensure!(!ran.hung, "it hung");
    let report = ran.report()?;
    let told = matches!(report.kind(), "timeout_wall" | "engine_lost");
    ensure!(told, "it ended as {:.600}", report.json().to_string());
    tidied(ground)
}

/// Removes the remains through the machine's own engine.
fn tidied(ground: &Ground) -> Result<()> {
    crate::residue::settle(|| {
        let ran = ground.codebox().arg("gc").run()?;
        ensure!(ran.code == Some(0), "gc: {} {}", ran.stdout_text(), ran.stderr_text());
        ground.containers()
    })
}
