//! L10 and L11: codebox is repeatedly killed while jobs run, with or without a restart.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Codebox, Report, soak};

use crate::chance::Chance;
use crate::ground::Ground;
use crate::proxied::reconciled;
use crate::residue::{processes_of, settle};
use crate::row::{Row, row};
use crate::watched::{Started, WAITING};

pub fn rows() -> Vec<Row> {
    vec![
        row("L10::killed_at_any_moment", killed_at_any_moment),
        row("L11::killed_and_left_alone", killed_and_left_alone),
    ]
}

/// Number of jobs of a round; codebox is killed for all but the last.
const JOBS: usize = 3;

/// Program that logs its start in a separate line, works for a while and prints that it is done.
const TELLING: &str = "import os, sys, time\n\
    log = os.open('/data/log', os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)\n\
    os.write(log, f'{sys.argv[1]}\\n'.encode())\n\
    time.sleep(0.3)\n\
    print('done', sys.argv[1])";

/// After the next start, no container, mount or directory of the killed process exists, no job ran twice, and every job
/// that was reported as done had run.
fn killed_at_any_moment(ground: &Ground) -> Result<()> {
    let mut chance = Chance::new();
    let seed = chance.seed();
    let rounds = soak().of(5, 25);
    let mut done = Vec::new();
    for round in 0..rounds {
        done.extend(killing(ground, round, &mut chance).with_context(|| format!("round {round}, seed {seed}"))?);
    }
    let log = fs::read_to_string(ground.canaries.grant().join("log")).unwrap_or_default();
    let mut ran: Vec<&str> = log.lines().collect();
    ran.sort_unstable();
    let times = ran.len();
    ran.dedup();
    ensure!(ran.len() == times, "a job was run twice (seed {seed}): {log}");
    for job in &done {
        ensure!(ran.contains(&job.as_str()), "{job} was told as done and did not run (seed {seed})");
    }
    // The last job of each round runs to its end.
    ensure!(done.len() >= rounds, "{} jobs were told as done (seed {seed})", done.len());
    Ok(())
}

/// Runs a round and returns the jobs that were reported as done.
fn killing(ground: &Ground, round: usize, chance: &mut Chance) -> Result<Vec<String>> {
    let mut running = Vec::new();
    for number in 0..JOBS {
        let name = format!("job-{round}-{number}");
        let job = ground.run_granted().args(["--timeout", "60s", "--lang", "python", "-c", TELLING, &name]);
        running.push((name, Killed(spawn(&job)?)));
        std::thread::sleep(Duration::from_millis(chance.below(60)));
    }
    let mut done = Vec::new();
    for (number, (name, mut child)) in running.into_iter().enumerate() {
        if number + 1 < JOBS {
            std::thread::sleep(Duration::from_millis(chance.below(450)));
            child.0.kill()?;
        }
        if finished(&name, child)? {
            done.push(name);
        }
    }
    reconciled(ground)?;
    Ok(done)
}

/// Child process that does not outlive the test.
struct Killed(Child);

impl Drop for Killed {
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
fn finished(name: &str, mut child: Killed) -> Result<bool> {
    let mut told = String::new();
    std::io::Read::read_to_string(&mut child.0.stdout.take().context("it has no output")?, &mut told)?;
    let status = child.0.wait()?;
    if status.code().is_none() {
        return Ok(false);
    }
    let report = Report::new(serde_json::from_str(&told).with_context(|| told.clone())?);
    ensure!(report.kind() == "ok" && report.stdout() == format!("done {name}\n"), "{name}: {told}");
    Ok(true)
}

/// Jobs of a killed codebox end without a restart, even if they resist termination.
fn killed_and_left_alone(ground: &Ground) -> Result<()> {
    let stay = [
        "",
        "import os, signal\nfor n in (1, 2, 3, 13, 15): signal.signal(n, signal.SIG_IGN)\nos.fork()\n",
        "import os\nif os.fork() == 0:\n    os.setsid()\n    os.fork()\n    while True: pass\n",
    ];
    for round in 0..soak().of(stay.len(), 20) {
        let grant = ground.canaries.grant();
        let _ = fs::remove_file(grant.join("ready"));
        let program = format!("{}{WAITING}", stay[round % stay.len()]);
        let job = ground.run_granted().args(["--timeout", "600s", "--lang", "python", "-c", &program]);
        let mut started = Started::new(ground, &job)?;
        started.kill()?;
        // Long before the deadline, because the agent ends with its connection.
        settle(|| Ok(processes_of(&started.id)))?;
    }
    let filter = format!("label={}", ground.label()?);
    settle(|| {
        let running = ground.engine.says(&["ps", "--no-trunc", "--quiet", "--filter", &filter])?;
        Ok(running.lines().map(|id| format!("the engine takes {id} for running")).collect())
    })?;
    reconciled(ground)
}
