//! Second runs that are stopped, and first processes that die.

use std::io::Read as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::programs::STARTS_THREAD;
use crate::residue::wait_until_empty;
use crate::test_env::TestEnvironment;
use crate::{Cases, case};

pub fn cases() -> Cases {
    vec![
        case("ends", "interrupted", |test_env| check_cancelled(test_env, "-INT", SignalTarget::FirstProcess)),
        case("ends", "process_group_interrupted", |test_env| {
            check_cancelled(test_env, "-INT", SignalTarget::ProcessGroup)
        }),
        case("ends", "killed_in_second_run", killed_in_second_run),
        case("ends", "terminated_in_second_run", |test_env| {
            check_cancelled(test_env, "-TERM", SignalTarget::FirstProcess)
        }),
        case("ends", "killed_in_first_run", killed_in_first_run),
        case("ends", "killed_at_any_time", killed_at_any_time),
        case("ends", "second_run_is_killed", second_run_is_killed),
        case("ends", "second_run_has_full_limits", second_run_has_full_limits),
        case("ends", "reader_disconnects", reader_disconnects),
    ]
}

/// Timeout for the start of a job; only a job that never starts reaches it.
const START_TIMEOUT: Duration = Duration::from_secs(100);

#[derive(Clone, Copy, PartialEq, Eq)]
enum SignalTarget {
    FirstProcess,
    ProcessGroup,
}

/// Run in a separate process group; killed when dropped.
struct BackgroundRun(Child);

impl BackgroundRun {
    /// Starts a program with a granted directory.
    fn start(test_env: &TestEnvironment, code: &str) -> Result<Self> {
        let run = test_env.codebox().arg("run").grant(&test_env.granted_dir(), "/data", "rw");
        let mut command = run.args(["--timeout", "600s", "--lang", "python", "-c", code]).command();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        Ok(Self(command.spawn()?))
    }

    /// Starts a program and waits until its second run is up.
    fn second(test_env: &TestEnvironment) -> Result<Self> {
        let code = format!(
            "print('first', flush=True)\n{STARTS_THREAD}import time\nprint('second', flush=True)\nopen('/data/ready', 'w').close()\ntime.sleep(600)\n"
        );
        let mut run = Self::start(test_env, &code)?;
        let until = Instant::now() + START_TIMEOUT;
        while !test_env.granted_dir().join("ready").exists() {
            if let Some(status) = run.0.try_wait()? {
                bail!("ended before it was ready: {status}; {}", run.output()?);
            }
            ensure!(Instant::now() < until, "did not start in time");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(run)
    }

    fn signal(&self, name: &str, target: SignalTarget) -> Result<()> {
        let pid = match target {
            SignalTarget::FirstProcess => self.0.id().to_string(),
            SignalTarget::ProcessGroup => format!("-{}", self.0.id()),
        };
        let status = Command::new("kill").args([name, "--", &pid]).status().context("run kill")?;
        ensure!(status.success(), "kill {name} {pid}: {status}");
        Ok(())
    }

    fn wait_for_end(&mut self) -> Result<ExitStatus> {
        let until = Instant::now() + START_TIMEOUT;
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            ensure!(Instant::now() < until, "did not end in time");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns all output of a run that has ended.
    fn output(&mut self) -> Result<String> {
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

impl Drop for BackgroundRun {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the id of the only container, which must be running.
fn running_container(test_env: &TestEnvironment) -> Result<String> {
    let ids = test_env.containers()?;
    let [id] = ids.as_slice() else { bail!("expected one container, found {}", ids.len()) };
    let found = test_env.engine.inspect(id)?;
    ensure!(found.pointer("/State/Running").is_some_and(|running| running == true), "the container is not running");
    Ok(id.clone())
}

/// Ctrl-C and similar signals reach the second run, whether sent to the process group or to the first process alone.
fn check_cancelled(test_env: &TestEnvironment, signal: &str, target: SignalTarget) -> Result<()> {
    let mut run = BackgroundRun::second(test_env)?;
    running_container(test_env)?;
    run.signal(signal, target)?;
    let status = run.wait_for_end()?;
    let output = run.output()?;
    ensure!(status.code() == Some(130), "unexpected {status}: {output}");
    ensure!(output.starts_with("first\nsecond\n"), "output is {output}");
    ensure!(test_env.containers()?.is_empty(), "its container is left behind");
    Ok(())
}

/// Killing the started process ends everything: no process continues unnoticed.
fn killed_in_second_run(test_env: &TestEnvironment) -> Result<()> {
    let mut run = BackgroundRun::second(test_env)?;
    running_container(test_env)?;
    run.signal("-KILL", SignalTarget::FirstProcess)?;
    let status = run.wait_for_end()?;
    ensure!(status.signal().is_some(), "unexpected {status}");
    wait_until_empty(|| Ok([test_env.processes(), test_env.containers()?].concat()))?;
    run_gc(test_env)
}

fn killed_in_first_run(test_env: &TestEnvironment) -> Result<()> {
    let mut run = BackgroundRun::start(test_env, "import time\nopen('/data/ready', 'w').close()\ntime.sleep(600)\n")?;
    let until = Instant::now() + START_TIMEOUT;
    while !test_env.granted_dir().join("ready").exists() {
        ensure!(Instant::now() < until, "did not start in time");
        thread::sleep(Duration::from_millis(20));
    }
    // The process itself, and the standby process.
    ensure!(test_env.processes().len() == 2, "found {} processes", test_env.processes().len());
    run.signal("-KILL", SignalTarget::FirstProcess)?;
    run.wait_for_end()?;
    wait_until_empty(|| Ok(test_env.processes()))?;
    ensure!(!test_env.has_queried_engines(), "engine was queried");
    run_gc(test_env)
}

/// Removes the private directory of a killed process.
fn run_gc(test_env: &TestEnvironment) -> Result<()> {
    let result = test_env.codebox().arg("gc").run()?;
    ensure!(result.code == Some(0), "gc: {} {}", result.stdout_text(), result.stderr_text());
    Ok(())
}

/// A kill between the two runs ends everything too.
fn killed_at_any_time(test_env: &TestEnvironment) -> Result<()> {
    let code = format!("{STARTS_THREAD}import time\ntime.sleep(600)\n");
    for step in 0..10 {
        let mut run = BackgroundRun::start(test_env, &code)?;
        thread::sleep(Duration::from_millis(60 * step));
        run.signal("-KILL", SignalTarget::FirstProcess)?;
        run.wait_for_end()?;
    }
    wait_until_empty(|| {
        run_gc(test_env)?;
        Ok([test_env.processes(), test_env.containers()?].concat())
    })
}

/// The death of the second process during its run is reported as a codebox error and does not lead to a third run.
fn second_run_is_killed(test_env: &TestEnvironment) -> Result<()> {
    let mut run = BackgroundRun::second(test_env)?;
    let first = run.0.id().to_string();
    let others: Vec<String> = test_env.processes().into_iter().filter(|pid| *pid != first).collect();
    let [second] = others.as_slice() else { bail!("expected one other process, found {others:?}") };
    ensure!(Command::new("kill").args(["-KILL", second]).status()?.success(), "kill {second}");
    let status = run.wait_for_end()?;
    let output = run.output()?;
    ensure!(status.code() == Some(125), "unexpected {status}: {output}");
    ensure!(output.contains("cannot determine how the program ended"), "output is {output}");
    wait_until_empty(|| {
        run_gc(test_env)?;
        test_env.containers()
    })
}

/// The second run has the full limits for itself.
fn second_run_has_full_limits(test_env: &TestEnvironment) -> Result<()> {
    let code = format!("print('first', flush=True)\n{STARTS_THREAD}print('second', flush=True)\nwhile True: pass\n");
    let report = test_env.report(test_env.run(&["--timeout", "3s", "--lang", "python", "-c", &code]))?;
    ensure!(report.kind() == "timeout_wall" && report.exit_code() == Some(124), "{}", report.json());
    ensure!(report.stdout() == "first\nsecond\n", "stdout is {:?}", report.stdout());
    ensure!(report.at("/provenance/escalated_from/backend") == "wasm", "{}", report.json());
    Ok(())
}

/// The second run ends when the reader of its output disconnects.
fn reader_disconnects(test_env: &TestEnvironment) -> Result<()> {
    let code =
        format!("{STARTS_THREAD}import time\nwhile True:\n    print('x' * 1000, flush=True)\n    time.sleep(0.01)\n");
    let mut run = BackgroundRun::start(test_env, &code)?;
    let mut some = [0; 5];
    run.0.stdout.take().context("stdout is piped")?.read_exact(&mut some)?;
    let status = run.wait_for_end()?;
    ensure!(status.code() == Some(141), "unexpected {status}");
    Ok(())
}
