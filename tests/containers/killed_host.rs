//! O1, O2 and O3: codebox is killed. Its job ends by itself, its remains are removed, and nothing else is removed.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::BASE_IMAGE;

use crate::engine::Engine;
use crate::residue::{container_processes, wait_until_empty};
use crate::row::{Row, row};
use crate::running_jobs::{RunningJob, WAITING_PROGRAM};
use crate::test_env::TestEnvironment;

pub fn rows() -> Vec<Row> {
    vec![
        row("O1::gc", gc_removes_remains),
        row("O1::next_run", next_run_removes_remains),
        row("O1::before_the_job", before_the_job),
        row("O1::journal", journal),
        row("O2::job_ends_without_restart", job_ends_without_restart),
        row("O2::stopped_host", stopped_host),
        row("O3::foreign_containers_stay", foreign_containers_stay),
        row("O3::labels_are_not_enough", labels_are_not_enough),
        row("O3::live_owner", live_owner),
    ]
}

/// Starts a job of ten minutes that leaves remains when it is killed immediately.
fn start(test_env: &TestEnvironment) -> Result<RunningJob> {
    let _ = std::fs::remove_file(test_env.canaries.grant().join("ready"));
    let stay = format!("import os\nopen('/work/left', 'w').close()\nos.fork()\n{WAITING_PROGRAM}");
    RunningJob::new(test_env, &test_env.run_granted().args(["--timeout", "600s", "--lang", "python", "-c", &stay]))
}

fn wait_for_exit(id: &str) -> Result<()> {
    wait_until_empty(|| Ok(container_processes(id)))
}

fn run_gc(test_env: &TestEnvironment, options: &[&str]) -> Result<String> {
    let result = test_env.codebox().arg("gc").args(options.iter().copied()).run()?;
    ensure!(result.code == Some(0), "gc: {} {}", result.stdout_text(), result.stderr_text());
    Ok(result.stdout_text())
}

/// `run_gc --dry-run` names the remains and `run_gc` removes them: the container, the mount and the private directory.
fn gc_removes_remains(test_env: &TestEnvironment) -> Result<()> {
    let mut running_job = start(test_env)?;
    running_job.kill()?;
    wait_for_exit(&running_job.id)?;
    let planned = run_gc(test_env, &["--dry-run"])?;
    ensure!(planned.contains("would remove container "), "dry run: {planned}");
    ensure!(test_env.containers()?.len() == 1, "the dry run removed the container");
    let removed = run_gc(test_env, &[])?;
    ensure!(removed.contains("removed container "), "gc: {removed}");
    test_env.check_nothing_left()
}

fn next_run_removes_remains(test_env: &TestEnvironment) -> Result<()> {
    start(test_env)?.kill()?;
    let report = test_env.run_expecting("ok", 0, test_env.run().args(["--lang", "python", "-c", "print('next')"]))?;
    ensure!(report.stdout() == "next\n", "stdout is {:?}", report.stdout());
    test_env.check_nothing_left()
}

/// Every accepted job has exactly one end and does not run again: the job of the killed codebox is interrupted.
fn journal(test_env: &TestEnvironment) -> Result<()> {
    let states = || -> Result<Vec<(String, String)>> {
        let result = test_env.codebox().args(["jobs", "--json"]).run()?;
        let records: Vec<serde_json::Value> = serde_json::from_slice(&result.stdout)?;
        let field = |record: &serde_json::Value, name: &str| record[name].as_str().unwrap_or_default().to_owned();
        Ok(records.iter().map(|record| (field(record, "id"), field(record, "state"))).collect())
    };
    let ended = test_env.run_expecting("ok", 0, test_env.run().args(["--lang", "python", "-c", "print('first')"]))?;
    let ended = ended.at("/job_id").as_str().context("the report has no number")?.to_owned();
    let mut running_job = start(test_env)?;
    let running = states()?;
    let [(id, state), rest @ ..] = running.as_slice() else { anyhow::bail!("no job is recorded") };
    ensure!(state == "running" && *rest == [(ended.clone(), "finished".to_owned())], "while it runs: {running:?}");
    running_job.kill()?;
    let expected = [(id.clone(), "interrupted".to_owned()), (ended, "finished".to_owned())];
    for _ in 0..2 {
        let found = states()?;
        ensure!(found == expected, "after the kill: {found:?}");
    }
    wait_for_exit(&running_job.id)?;
    run_gc(test_env, &[]).map(drop)
}

/// After a kill during creation, start or attachment of a container, all remains are soon removed.
fn before_the_job(test_env: &TestEnvironment) -> Result<()> {
    for step in 0..8 {
        let mut command = test_env.run_granted().args(["--timeout", "600s", "--", "/bin/sleep", "600"]).command();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        std::thread::sleep(std::time::Duration::from_millis(40 * step));
        child.kill()?;
        child.wait()?;
    }
    // The engine may finish the creation of a container after its owner's death, at an unpredictable time.
    for _ in 0..30 {
        run_gc(test_env, &[])?;
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    wait_until_empty(|| {
        run_gc(test_env, &[])?;
        crate::residue::find_remains(test_env, &[])
    })
}

/// Without a restart of codebox, the agent notices the end of its connection.
fn job_ends_without_restart(test_env: &TestEnvironment) -> Result<()> {
    let mut running_job = start(test_env)?;
    running_job.kill()?;
    wait_for_exit(&running_job.id)?;
    run_gc(test_env, &[]).map(drop)
}

/// A stopped host process does not prolong a job, because the agent keeps the time.
fn stopped_host(test_env: &TestEnvironment) -> Result<()> {
    let job = test_env.run_granted().args(["--timeout", "2s", "--lang", "python", "-c", WAITING_PROGRAM]);
    let mut running_job = RunningJob::new(test_env, &job)?;
    let pid = running_job.child.id().to_string();
    signal("-STOP", &pid)?;
    // The agent stays, because its host may continue; the job's process is gone.
    let job_removed = wait_until_empty(|| {
        Ok(container_processes(&running_job.id).into_iter().filter(|line| line.contains("python")).collect())
    });
    signal("-CONT", &pid)?;
    job_removed?;
    let status = running_job.child.wait()?;
    ensure!(status.code() == Some(124), "unexpected {status}");
    Ok(())
}

fn signal(name: &str, pid: &str) -> Result<()> {
    let status = Command::new("kill").args([name, pid]).status().context("run kill")?;
    ensure!(status.success(), "kill {name} {pid}: {status}");
    Ok(())
}

/// Container of another owner; removed when dropped.
struct Decoy {
    engine: Engine,
    id: String,
}

impl Decoy {
    fn new(engine: Engine, name: &str, labels: &[String]) -> Result<Self> {
        let options =
            ["create", "--name", name, "--network", "none", "--ulimit", "nofile=256:256", "--ulimit", "nproc=256:256"];
        let mut args: Vec<&str> = options.into();
        for label in labels {
            args.extend(["--label", label]);
        }
        args.extend([BASE_IMAGE, "true"]);
        Ok(Self { engine, id: engine.run_cli(&args)? })
    }
}

impl Drop for Decoy {
    fn drop(&mut self) {
        let _ = self.engine.run_cli(&["rm", "--force", &self.id]);
    }
}

/// A name like ours, another home's label, or our own label on a container that none of our owners created is not
/// enough for removal.
fn foreign_containers_stay(test_env: &TestEnvironment) -> Result<()> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let unique_suffix = || format!("{:08x}", std::process::id() << 8 | COUNT.fetch_add(1, Ordering::Relaxed));
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let boot = format!("codebox.boot={}", boot.trim());
    let (ours, owner) = (test_env.label()?, "codebox.owner=run-gone00".to_owned());
    let other = "codebox.home=00000000000000000000000000000000".to_owned();
    let labels = [
        vec![],
        vec![other.clone(), owner.clone(), boot.clone()],
        vec![other, owner.clone(), "codebox.boot=another".to_owned()],
        vec![owner, boot.clone()],
        vec![ours.clone()],
        vec![ours, "codebox.owner=../../etc".to_owned(), boot],
    ];
    let make =
        |labels: &Vec<String>| Decoy::new(test_env.engine, &format!("codebox-run-gone00-{}", unique_suffix()), labels);
    let decoys = labels.iter().map(make).collect::<Result<Vec<_>>>()?;
    start(test_env)?.kill()?;
    wait_until_empty(|| {
        run_gc(test_env, &[])?;
        Ok(test_env.containers()?.into_iter().filter(|id| decoys.iter().all(|decoy| decoy.id != *id)).collect())
    })?;
    for (decoy, labels) in decoys.iter().zip(&labels) {
        test_env.engine.inspect(&decoy.id).with_context(|| format!("container with {labels:?} was removed"))?;
    }
    Ok(())
}

/// Image, removed when dropped.
struct Image {
    engine: Engine,
    name: String,
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = self.engine.run_cli(&["rmi", "--force", &self.name]);
    }
}

/// Containers that carry all our labels but inherited them from a committed image or were given copies are not ours and
/// stay. The original container is removed.
fn labels_are_not_enough(test_env: &TestEnvironment) -> Result<()> {
    let engine = test_env.engine;
    let mut running_job = start(test_env)?;
    let found = engine.inspect(&running_job.id)?;
    let name = found["Name"].as_str().context("container has no name")?.trim_start_matches('/').to_owned();
    // Image names have no capital letters.
    let image = Image { engine, name: format!("localhost/{}:committed", name.to_lowercase()) };
    engine.run_cli(&["commit", "--pause=false", &running_job.id, &image.name])?;
    let labels = found["Config"]["Labels"].as_object().context("container has no labels")?;
    let labels: Vec<String> =
        labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    ensure!(
        labels.iter().any(|label| label.starts_with("codebox.proof=")),
        "container has no ownership label: {labels:?}"
    );
    let owner = name.rsplit_once('-').context("its name has no number")?.0;
    let create = |number: u32, image: &str, options: &[&str], words: &[&str]| -> Result<Decoy> {
        let name = format!("{owner}-{number:08x}");
        let mut args = vec!["create", "--name", &name, "--network", "none"];
        args.extend(["--ulimit", "nofile=256:256", "--ulimit", "nproc=256:256"]);
        args.extend(options);
        args.push(image);
        args.extend(words);
        Ok(Decoy { engine, id: engine.run_cli(&args)? })
    };
    let copied: Vec<&str> = labels.iter().flat_map(|label| ["--label", label]).collect();
    let agent = [copied.as_slice(), &["--entrypoint", "/.codebox/agent"]].concat();
    let mut decoys = vec![
        create(1, &image.name, &[], &[])?,
        create(2, &image.name, &["--entrypoint", "/bin/true"], &[])?,
        create(3, BASE_IMAGE, &copied, &["true"])?,
        create(4, BASE_IMAGE, &agent, &["serve"])?,
    ];
    running_job.kill()?;
    wait_for_exit(&running_job.id)?;
    // The name is free again. The next container equals one of codebox's except that its labels come from the image.
    wait_until_empty(|| {
        run_gc(test_env, &[])?;
        Ok(engine
            .inspect(&running_job.id)
            .is_ok()
            .then(|| format!("container {}", running_job.id))
            .into_iter()
            .collect())
    })?;
    let number = name.rsplit_once('-').and_then(|(_, number)| u32::from_str_radix(number, 16).ok());
    decoys.push(create(number.context("its name has no number")?, &image.name, &[], &[])?);
    run_gc(test_env, &[])?;
    for (at, decoy) in decoys.iter().enumerate() {
        engine.inspect(&decoy.id).with_context(|| format!("decoy {at} was removed"))?;
    }
    Ok(())
}

/// A running job belongs to its owner, and other processes of the same home do not touch it.
fn live_owner(test_env: &TestEnvironment) -> Result<()> {
    let mut running_job = start(test_env)?;
    let removed = run_gc(test_env, &[])?;
    ensure!(removed.contains("nothing to remove"), "gc: {removed}");
    test_env.run_expecting("ok", 0, test_env.run().args(["--lang", "python", "-c", "print('beside')"]))?;
    std::fs::write(test_env.canaries.grant().join("go"), "")?;
    let status = running_job.child.wait()?;
    ensure!(status.code() == Some(0), "the first job ended with {status}");
    Ok(())
}
