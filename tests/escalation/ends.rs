//! Second runs that are stopped, and first processes that die.

use std::io::Read as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::ground::Ground;
use crate::programs::DIES;
use crate::residue::settle;
use crate::{Cases, case};

pub fn cases() -> Cases {
    vec![
        case("ends", "interrupted", |ground| interrupted(ground, ("-INT", Whom::First))),
        case("ends", "interrupted_with_its_group", |ground| interrupted(ground, ("-INT", Whom::Group))),
        case("ends", "killed_in_the_second_run", killed_in_the_second),
        case("ends", "terminated_in_the_second_run", |ground| interrupted(ground, ("-TERM", Whom::First))),
        case("ends", "killed_in_the_first_run", killed_in_the_first),
        case("ends", "killed_at_any_time", killed_at_any_time),
        case("ends", "second_is_killed", second_is_killed),
        case("ends", "limited", limited),
        case("ends", "nobody_reads", nobody_reads),
    ]
}

/// Timeout for the start of a job; only a job that never starts reaches it.
const PATIENCE: Duration = Duration::from_secs(100);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Whom {
    First,
    Group,
}

/// Run in a separate process group; killed when dropped.
struct Run(Child);

impl Run {
    /// Starts a program with a granted directory.
    fn start(ground: &Ground, code: &str) -> Result<Self> {
        let run = ground.codebox().arg("run").grant(&ground.granted(), "/data", "rw");
        let mut command = run.args(["--timeout", "600s", "--lang", "python", "-c", code]).command();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        Ok(Self(command.spawn()?))
    }

    /// Starts a program and waits until its second run is up.
    fn second(ground: &Ground) -> Result<Self> {
        let code = format!(
            "print('first', flush=True)\n{DIES}import time\nprint('second', flush=True)\nopen('/data/ready', 'w').close()\ntime.sleep(600)\n"
        );
        let mut run = Self::start(ground, &code)?;
        let until = Instant::now() + PATIENCE;
        while !ground.granted().join("ready").exists() {
            if let Some(status) = run.0.try_wait()? {
                bail!("it was over before it was up: {status}; {}", run.said()?);
            }
            ensure!(Instant::now() < until, "it does not come up");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(run)
    }

    fn signal(&self, name: &str, whom: Whom) -> Result<()> {
        let pid = match whom {
            Whom::First => self.0.id().to_string(),
            Whom::Group => format!("-{}", self.0.id()),
        };
        let status = Command::new("kill").args([name, "--", &pid]).status().context("run kill")?;
        ensure!(status.success(), "kill {name} {pid}: {status}");
        Ok(())
    }

    fn end(&mut self) -> Result<ExitStatus> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            ensure!(Instant::now() < until, "it does not end");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns all output of a run that has ended.
    fn said(&mut self) -> Result<String> {
        let mut text = String::new();
        if let Some(mut stdout) = self.0.stdout.take() {
            stdout.read_to_string(&mut text)?;
        }
        if let Some(mut stderr) = self.0.stderr.take() {
            stderr.read_to_string(&mut text)?;
        }
        Ok(text)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the id of the only container, which must be running.
fn container(ground: &Ground) -> Result<String> {
    let ids = ground.containers()?;
    let [id] = ids.as_slice() else { bail!("there is not one container but {}", ids.len()) };
    let found = ground.engine.inspect(id)?;
    ensure!(found.pointer("/State/Running").is_some_and(|running| running == true), "it does not run");
    Ok(id.clone())
}

/// Ctrl-C and similar signals reach the second run, whether sent to the process group or to the first process alone.
fn interrupted(ground: &Ground, (signal, whom): (&str, Whom)) -> Result<()> {
    let mut run = Run::second(ground)?;
    container(ground)?;
    run.signal(signal, whom)?;
    let status = run.end()?;
    let said = run.said()?;
    ensure!(status.code() == Some(130), "it ended with {status}: {said}");
    ensure!(said.starts_with("first\nsecond\n"), "it said {said}");
    ensure!(ground.containers()?.is_empty(), "its container is left");
    Ok(())
}

/// Killing the started process ends everything: no process continues unnoticed.
fn killed_in_the_second(ground: &Ground) -> Result<()> {
    let mut run = Run::second(ground)?;
    container(ground)?;
    run.signal("-KILL", Whom::First)?;
    let status = run.end()?;
    ensure!(status.signal().is_some(), "it ended with {status}");
    settle(|| Ok([ground.processes(), ground.containers()?].concat()))?;
    gc(ground)
}

fn killed_in_the_first(ground: &Ground) -> Result<()> {
    let mut run = Run::start(ground, "import time\nopen('/data/ready', 'w').close()\ntime.sleep(600)\n")?;
    let until = Instant::now() + PATIENCE;
    while !ground.granted().join("ready").exists() {
        ensure!(Instant::now() < until, "it does not come up");
        thread::sleep(Duration::from_millis(20));
    }
    // The process itself, and the standby process.
    ensure!(ground.processes().len() == 2, "there are {} processes", ground.processes().len());
    run.signal("-KILL", Whom::First)?;
    run.end()?;
    settle(|| Ok(ground.processes()))?;
    ensure!(!ground.has_asked_engines(), "it asked an engine");
    gc(ground)
}

/// Removes the private directory of a killed process.
fn gc(ground: &Ground) -> Result<()> {
    let ran = ground.codebox().arg("gc").run()?;
    ensure!(ran.code == Some(0), "gc: {} {}", ran.stdout_text(), ran.stderr_text());
    Ok(())
}

/// A kill between the two runs ends everything too.
fn killed_at_any_time(ground: &Ground) -> Result<()> {
    let code = format!("{DIES}import time\ntime.sleep(600)\n");
    for step in 0..10 {
        let mut run = Run::start(ground, &code)?;
        thread::sleep(Duration::from_millis(60 * step));
        run.signal("-KILL", Whom::First)?;
        run.end()?;
    }
    settle(|| {
        gc(ground)?;
        Ok([ground.processes(), ground.containers()?].concat())
    })
}

/// The death of the second process during its run is reported as a codebox error and does not lead to a third run.
fn second_is_killed(ground: &Ground) -> Result<()> {
    let mut run = Run::second(ground)?;
    let first = run.0.id().to_string();
    let others: Vec<String> = ground.processes().into_iter().filter(|pid| *pid != first).collect();
    let [second] = others.as_slice() else { bail!("there is not one other process but {others:?}") };
    ensure!(Command::new("kill").args(["-KILL", second]).status()?.success(), "kill {second}");
    let status = run.end()?;
    let said = run.said()?;
    ensure!(status.code() == Some(125), "it ended with {status}: {said}");
    ensure!(said.contains("cannot determine how the program ended"), "it said {said}");
    settle(|| {
        gc(ground)?;
        ground.containers()
    })
}

/// The second run has the full limits for itself.
fn limited(ground: &Ground) -> Result<()> {
    let code = format!("print('first', flush=True)\n{DIES}print('second', flush=True)\nwhile True: pass\n");
    let report = ground.report(ground.run(&["--timeout", "3s", "--lang", "python", "-c", &code]))?;
    ensure!(report.kind() == "timeout_wall" && report.exit_code() == Some(124), "{}", report.json());
    ensure!(report.stdout() == "first\nsecond\n", "it printed {:?}", report.stdout());
    ensure!(report.at("/provenance/escalated_from/backend") == "wasm", "{}", report.json());
    Ok(())
}

/// The second run ends when the reader of its output disconnects.
fn nobody_reads(ground: &Ground) -> Result<()> {
    let code = format!("{DIES}import time\nwhile True:\n    print('x' * 1000, flush=True)\n    time.sleep(0.01)\n");
    let mut run = Run::start(ground, &code)?;
    let mut some = [0; 5];
    run.0.stdout.take().context("it has a pipe")?.read_exact(&mut some)?;
    let status = run.end()?;
    ensure!(status.code() == Some(141), "it ended with {status}");
    Ok(())
}
