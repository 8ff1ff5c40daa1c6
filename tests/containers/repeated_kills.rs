//! L10 and L11: codebox is repeatedly killed while jobs run, with or without a restart.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Codebox, Report, soak};

use crate::engine_proxy::check_gc_removes_all;
use crate::residue::{container_processes, wait_until_empty};
use crate::rng::Rng;
use crate::row::{Row, row};
use crate::running_jobs::{RunningJob, WAITING_PROGRAM};
use crate::test_env::TestEnvironment;

pub fn rows() -> Vec<Row> {
    vec![
        row("L10::killed_at_any_moment", killed_at_any_moment),
        row("L11::killed_without_restart", killed_without_restart),
    ]
}

/// Number of jobs of a round; codebox is killed for all but the last.
const JOBS_PER_ROUND: usize = 3;

/// Program that logs its start in a separate line, works for a while and prints that it is done.
const LOGGING_PROGRAM: &str = "import os, sys, time\n\
    log = os.open('/data/log', os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)\n\
    os.write(log, f'{sys.argv[1]}\\n'.encode())\n\
    time.sleep(0.3)\n\
    print('done', sys.argv[1])";

/// After the next start, no container, mount or directory of the killed process exists, no job ran twice, and every job
/// that was reported as done had run.
fn killed_at_any_moment(test_env: &TestEnvironment) -> Result<()> {
    let mut rng = Rng::new();
    let seed = rng.seed();
    let rounds = soak().of(3, 25);
    let mut done = Vec::new();
    for round in 0..rounds {
        done.extend(run_kill_round(test_env, round, &mut rng).with_context(|| format!("round {round}, seed {seed}"))?);
    }
    let log = fs::read_to_string(test_env.canaries.grant().join("log")).unwrap_or_default();
    let mut started_jobs: Vec<&str> = log.lines().collect();
    started_jobs.sort_unstable();
    let count = started_jobs.len();
    started_jobs.dedup();
    ensure!(started_jobs.len() == count, "a job was run twice (seed {seed}): {log}");
    for job in &done {
        ensure!(started_jobs.contains(&job.as_str()), "{job} was reported as done and did not run (seed {seed})");
    }
    // The last job of each round runs to its end.
    ensure!(done.len() >= rounds, "{} jobs were reported as done (seed {seed})", done.len());
    Ok(())
}

/// Runs a round and returns the jobs that were reported as done.
fn run_kill_round(test_env: &TestEnvironment, round: usize, rng: &mut Rng) -> Result<Vec<String>> {
    let mut running = Vec::new();
    for number in 0..JOBS_PER_ROUND {
        let name = format!("job-{round}-{number}");
        let job = test_env.run_granted().args(["--timeout", "60s", "--lang", "python", "-c", LOGGING_PROGRAM, &name]);
        running.push((name, KillOnDrop(spawn(&job)?)));
        std::thread::sleep(Duration::from_millis(rng.below(60)));
    }
    let mut done = Vec::new();
    for (number, (name, mut child)) in running.into_iter().enumerate() {
        if number + 1 < JOBS_PER_ROUND {
            std::thread::sleep(Duration::from_millis(rng.below(450)));
            child.0.kill()?;
        }
        if ended_by_itself(&name, child)? {
            done.push(name);
        }
    }
    check_gc_removes_all(test_env)?;
    Ok(done)
}

/// Child process that does not outlive the test.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(job: &Codebox) -> Result<Child> {
    let mut command = job.command();
    Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?)
}

/// Returns true if codebox ended by itself; its report must then be complete.
fn ended_by_itself(name: &str, mut child: KillOnDrop) -> Result<bool> {
    let mut output = String::new();
    std::io::Read::read_to_string(&mut child.0.stdout.take().context("stdout is not piped")?, &mut output)?;
    let status = child.0.wait()?;
    if status.code().is_none() {
        return Ok(false);
    }
    let report = Report::new(serde_json::from_str(&output).with_context(|| output.clone())?);
    ensure!(report.kind() == "ok" && report.stdout() == format!("done {name}\n"), "{name}: {output}");
    Ok(true)
}

/// Jobs of a killed codebox end without a restart, even if they resist termination.
fn killed_without_restart(test_env: &TestEnvironment) -> Result<()> {
    let resisting_programs = [
        "",
        "import os, signal\nfor n in (1, 2, 3, 13, 15): signal.signal(n, signal.SIG_IGN)\nos.fork()\n",
        "import os\nif os.fork() == 0:\n    os.setsid()\n    os.fork()\n    while True: pass\n",
    ];
    for round in 0..soak().of(resisting_programs.len(), 20) {
        let grant = test_env.canaries.grant();
        let _ = fs::remove_file(grant.join("ready"));
        let program = format!("{}{WAITING_PROGRAM}", resisting_programs[round % resisting_programs.len()]);
        let job = test_env.run_granted().args(["--timeout", "600s", "--lang", "python", "-c", &program]);
        let mut started = RunningJob::new(test_env, &job)?;
        started.kill()?;
        // Long before the deadline, because the agent ends with its connection.
        wait_until_empty(|| Ok(container_processes(&started.id)))?;
    }
    let filter = format!("label={}", test_env.label()?);
    wait_until_empty(|| {
        let running = test_env.engine.run_cli(&["ps", "--no-trunc", "--quiet", "--filter", &filter])?;
        Ok(running.lines().map(|id| format!("the engine takes {id} for running")).collect())
    })?;
    check_gc_removes_all(test_env)
}
