//! Jobs that are observed while they run.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use codebox_testkit::{Codebox, Ran};

use crate::ground::Ground;

/// Timeout for the start of a job; only a job that never starts reaches it.
const PATIENCE: Duration = Duration::from_secs(100);

/// Program that creates a file when it is up and waits for another file to end.
pub const WAITING: &str = "import os, time\nopen('/data/ready', 'w').close()\nwhile not os.path.exists('/data/go'): time.sleep(0.05)\nprint('told')";

/// Runs a job that [waits](WAITING) and calls `look` with its container.
pub fn during<T>(ground: &Ground, job: Codebox, look: impl FnOnce(&str) -> Result<T>) -> Result<(Ran, T)> {
    let before = ground.containers()?;
    thread::scope(|scope| {
        let running = scope.spawn(|| job.run());
        let looked = up(ground, &before, || running.is_finished()).and_then(|id| look(&id));
        fs::write(ground.canaries.grant().join("go"), "")?;
        let ran = running.join().map_err(|_| anyhow!("the thread that ran codebox panicked"))??;
        let looked = looked.with_context(|| format!("{:.900} {:.900}", ran.stdout_text(), ran.stderr_text()))?;
        Ok((ran, looked))
    })
}

/// Waits until a job is up and returns its container.
fn up(ground: &Ground, before: &[String], mut is_over: impl FnMut() -> bool) -> Result<String> {
    let ready = ground.canaries.grant().join("ready");
    let until = Instant::now() + PATIENCE;
    loop {
        if ready.exists() {
            let ids: Vec<String> = ground.containers()?.into_iter().filter(|id| !before.contains(id)).collect();
            let [id] = ids.as_slice() else { bail!("there is not one container but {}", ids.len()) };
            ground.saw(id);
            return Ok(id.clone());
        }
        if is_over() {
            bail!("it was over before it was up");
        }
        if Instant::now() >= until {
            bail!("it does not come up");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Running codebox with a job that is up; killed when dropped.
pub struct Started {
    pub child: Child,
    /// Id of the container.
    pub id: String,
}

impl Started {
    /// Starts a job that [waits](WAITING).
    pub fn new(ground: &Ground, job: &Codebox) -> Result<Self> {
        Self::with(ground, job.command())
    }

    /// Starts a job that [waits](WAITING) with a signal ignored, as a shell's `trap` leaves it.
    pub fn ignoring(ground: &Ground, job: &Codebox, signal: &str) -> Result<Self> {
        let job = job.command();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("trap '' {signal}; exec \"$@\""), "sh"]).arg(job.get_program()).args(job.get_args());
        shell.env_clear().envs(job.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Self::with(ground, shell)
    }

    fn with(ground: &Ground, mut command: Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let before = ground.containers()?;
        let child = command.spawn()?;
        let mut started = Self { child, id: String::new() };
        let id = up(ground, &before, || started.child.try_wait().is_ok_and(|status| status.is_some()))?;
        started.id = id;
        Ok(started)
    }

    /// Kills only the codebox process.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
