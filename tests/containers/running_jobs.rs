//! Jobs that are observed while they run.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use codebox_testkit::{Codebox, ProcessResult};

use crate::test_env::TestEnvironment;

/// Timeout for the start of a job; only a job that never starts reaches it.
const START_TIMEOUT: Duration = Duration::from_secs(100);

/// Program that creates a file when it is up and waits for another file to end.
pub const WAITING_PROGRAM: &str = "import os, time\nopen('/data/ready', 'w').close()\nwhile not os.path.exists('/data/go'): time.sleep(0.05)\nprint('done')";

/// Runs a job that [waits](WAITING_PROGRAM) and calls `inspect` with its container.
pub fn while_running<T>(
    test_env: &TestEnvironment,
    job: Codebox,
    inspect: impl FnOnce(&str) -> Result<T>,
) -> Result<(ProcessResult, T)> {
    let before = test_env.containers()?;
    thread::scope(|scope| {
        let running = scope.spawn(|| job.run());
        let inspected = wait_until_up(test_env, &before, || running.is_finished()).and_then(|id| inspect(&id));
        fs::write(test_env.canaries.grant().join("go"), "")?;
        let result = running.join().map_err(|_| anyhow!("the thread that ran codebox panicked"))??;
        let inspected =
            inspected.with_context(|| format!("{:.900} {:.900}", result.stdout_text(), result.stderr_text()))?;
        Ok((result, inspected))
    })
}

/// Waits until a job is up and returns its container.
fn wait_until_up(test_env: &TestEnvironment, before: &[String], mut is_over: impl FnMut() -> bool) -> Result<String> {
    let ready = test_env.canaries.grant().join("ready");
    let until = Instant::now() + START_TIMEOUT;
    loop {
        if ready.exists() {
            let ids: Vec<String> = test_env.containers()?.into_iter().filter(|id| !before.contains(id)).collect();
            let [id] = ids.as_slice() else { bail!("expected one container, found {}", ids.len()) };
            test_env.record_container(id);
            return Ok(id.clone());
        }
        if is_over() {
            bail!("ended before it was ready");
        }
        if Instant::now() >= until {
            bail!("did not start in time");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Running codebox with a job that is up; killed when dropped.
pub struct RunningJob {
    pub child: Child,
    /// Id of the container.
    pub id: String,
}

impl RunningJob {
    /// Starts a job that [waits](WAITING_PROGRAM).
    pub fn new(test_env: &TestEnvironment, job: &Codebox) -> Result<Self> {
        Self::start(test_env, job.command())
    }

    /// Starts a job that [waits](WAITING_PROGRAM) with a signal ignored, as a shell's `trap` leaves it.
    pub fn with_signal_ignored(test_env: &TestEnvironment, job: &Codebox, signal: &str) -> Result<Self> {
        let job = job.command();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("trap '' {signal}; exec \"$@\""), "sh"]).arg(job.get_program()).args(job.get_args());
        shell.env_clear().envs(job.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Self::start(test_env, shell)
    }

    fn start(test_env: &TestEnvironment, mut command: Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let before = test_env.containers()?;
        let child = command.spawn()?;
        let mut running_job = Self { child, id: String::new() };
        let id =
            wait_until_up(test_env, &before, || running_job.child.try_wait().is_ok_and(|status| status.is_some()))?;
        running_job.id = id;
        Ok(running_job)
    }

    /// Kills only the codebox process.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
