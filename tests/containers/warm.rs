//! Warm containers: each serves one run of its own shape, and no remains stay after any process dies.

use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::Codebox;

use crate::residue::wait_until_empty;
use crate::row::{Row, row};
use crate::running_jobs::WAITING_PROGRAM;
use crate::test_env::TestEnvironment;

pub fn rows() -> Vec<Row> {
    vec![
        row("warm::serves_runs", serves_runs),
        row("warm::requires_same_settings", requires_same_settings),
        row("warm::granted", granted),
        row("warm::inherits_nothing", inherits_nothing),
        row("warm::skips_removed_containers", skips_removed_containers),
        row("warm::killed_run", killed_run),
        row("warm::killed_daemon", killed_daemon),
    ]
}

/// Runs the row and stops the pool daemon in any case; the daemon would otherwise wait for ten minutes.
fn with_pool_daemon(test_env: &TestEnvironment, row: fn(&TestEnvironment) -> Result<()>) -> Result<()> {
    let done = row(test_env);
    let ended = test_env.run().args(["--warm", "0", "--", "/bin/true"]).run()?;
    wait_until_empty(|| Ok(pool_daemons(test_env)))?;
    done?;
    ensure!(ended.code == Some(0), "final run: {}", ended.stderr_text());
    Ok(())
}

fn warm(test_env: &TestEnvironment) -> Codebox {
    test_env.run().args(["--warm", "2", "--lang", "python"])
}

/// Runs a job and returns its container and its output.
fn run(test_env: &TestEnvironment, job: Codebox) -> Result<(String, String)> {
    let report = test_env.run_expecting("ok", 0, job)?;
    let id = report.at("/provenance/container_id").as_str().context("no container is named")?;
    Ok((id.to_owned(), report.stdout().to_owned()))
}

/// Waits for this many ready containers and returns them.
fn ready(test_env: &TestEnvironment, count: usize) -> Result<Vec<String>> {
    wait_until_empty(|| {
        let found = test_env.containers()?;
        let running = found.iter().filter(|id| is_running(test_env, id)).count();
        Ok(if found.len() == count && running == count { Vec::new() } else { vec![format!("{found:?}")] })
    })?;
    // The daemon learns of an agent a moment after its container runs, and does not announce it.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let found = test_env.containers()?;
    found.iter().for_each(|id| test_env.record_container(id));
    Ok(found)
}

fn is_running(test_env: &TestEnvironment, id: &str) -> bool {
    test_env.engine.inspect(id).is_ok_and(|container| container["State"]["Running"] == true)
}

/// Starts a run whose job is up and [waits](WAITING_PROGRAM).
fn start_waiting_job(test_env: &TestEnvironment, job: &Codebox) -> Result<Child> {
    let mut command = job.command();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let ready = test_env.canaries.grant().join("ready");
    wait_until_empty(|| Ok(if ready.exists() { Vec::new() } else { vec!["a job that does not come up".to_owned()] }))?;
    ensure!(child.try_wait()?.is_none(), "ended before it was ready");
    Ok(child)
}

/// Lists the daemon processes that keep containers ready for this environment.
fn pool_daemons(test_env: &TestEnvironment) -> Vec<String> {
    let home = format!("CODEBOX_HOME={}", test_env.home().display());
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().into_string().ok());
    pids.filter(|pid| {
        let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let has = |name: &str, word: &str| read(name).split(|byte| *byte == 0).any(|part| part == word.as_bytes());
        has("cmdline", "keep-warm") && has("environ", &home)
    })
    .collect()
}

/// The first run is a cold start; each later run has a different ready container without remains of another run.
fn serves_runs(test_env: &TestEnvironment) -> Result<()> {
    with_pool_daemon(test_env, |test_env| {
        let job = "import os\nprint(sorted(os.listdir('/work') + os.listdir('/tmp')), input())\n\
                   open('/work/mine', 'w').close()\nopen('/tmp/mine', 'w').close()";
        let run = |word: &str| {
            run(
                test_env,
                warm(test_env).args(["-c", job]).input(codebox_testkit::Input::Bytes(word.as_bytes().to_vec())),
            )
        };
        run("cold")?;
        let mut used = Vec::new();
        for word in ["one", "two", "three"] {
            let waiting = ready(test_env, 2)?;
            let (id, printed) = run(word)?;
            ensure!(printed == format!("[] {word}\n"), "stdout is {printed:?}");
            ensure!(waiting.contains(&id), "container is {id}, ready containers are {waiting:?}");
            ensure!(!used.contains(&id), "{id} was used twice");
            used.push(id);
        }
        ensure!(pool_daemons(test_env).len() == 1, "pool daemons: {:?}", pool_daemons(test_env));
        Ok(())
    })
}

/// A run whose container would be created with other settings does not get a ready container.
fn requires_same_settings(test_env: &TestEnvironment) -> Result<()> {
    with_pool_daemon(test_env, |test_env| {
        run(test_env, warm(test_env).args(["-c", "0"]))?;
        let waiting = ready(test_env, 2)?;
        let other = [
            warm(test_env).args(["--memory", "200M", "-c", "0"]),
            warm(test_env).grant(&test_env.canaries.grant(), "/data", "ro").args(["-c", "0"]),
            test_env.run_hostile().args(["--warm", "2", "--lang", "python", "-c", "0"]),
            test_env.run().args(["--lang", "python", "-c", "0"]),
        ];
        for job in other {
            let report = test_env.check_run(&job.run()?)?;
            let id = report.at("/provenance/container_id").as_str().context("no container is named")?.to_owned();
            ensure!(!waiting.contains(&id), "a ready container was used: {}", report.json());
        }
        // The time limit is not part of a container's shape.
        let (id, _) = run(test_env, warm(test_env).args(["--timeout", "77s", "-c", "0"]))?;
        ensure!(waiting.contains(&id), "container is {id}, ready containers are {waiting:?}");
        Ok(())
    })
}

/// A granted directory is part of the shape, and files written there belong to the caller.
fn granted(test_env: &TestEnvironment) -> Result<()> {
    with_pool_daemon(test_env, |test_env| {
        let job = |name: &str| {
            let code = format!("open('/data/{name}', 'x').write('{name}')");
            test_env.run_granted().args(["--warm", "1", "--lang", "python", "-c", &code])
        };
        run(test_env, job("cold"))?;
        let waiting = ready(test_env, 1)?;
        let (id, _) = run(test_env, job("ready"))?;
        ensure!(waiting == [id], "the container is not one of {waiting:?}");
        for name in ["cold", "ready"] {
            let path = test_env.canaries.grant().join(name);
            ensure!(std::fs::read_to_string(&path)? == name, "{} is incomplete", path.display());
            let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&path)?);
            ensure!(owner == 0, "{} belongs to {owner}", path.display());
            std::fs::remove_file(&path)?;
        }
        Ok(())
    })
}

/// A lock that the caller holds is released at the end of the run although the daemon lives; and the daemon finds a
/// home that was given relative to the run's working directory.
fn inherits_nothing(test_env: &TestEnvironment) -> Result<()> {
    with_pool_daemon(test_env, |test_env| {
        let lock = test_env.canaries.grant().join("lock");
        let run = test_env.run().args(["--warm", "1", "--", "/bin/true"]).command();
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", "exec 9>\"$0\" && flock 9 && exec \"$@\""])
            .arg(&lock)
            .arg(run.get_program())
            .args(run.get_args());
        shell
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("CODEBOX_HOME", test_env.home().file_name().context("a name")?);
        shell.current_dir(test_env.home().parent().context("a parent")?).stdin(Stdio::null()).stdout(Stdio::null());
        let status = shell.status()?;
        ensure!(status.success(), "the run: {status}");
        ready(test_env, 1)?;
        let lock_result = std::fs::File::open(&lock)?.try_lock();
        ensure!(lock_result.is_ok(), "the caller's lock is still held");
        std::fs::remove_file(&lock)?;
        Ok(())
    })
}

/// A ready container that another process removed is not used.
fn skips_removed_containers(test_env: &TestEnvironment) -> Result<()> {
    with_pool_daemon(test_env, |test_env| {
        run(test_env, warm(test_env).args(["-c", "0"]))?;
        for id in ready(test_env, 2)? {
            test_env.engine.run_cli(&["rm", "--force", &id])?;
        }
        let (_, printed) = run(test_env, warm(test_env).args(["-c", "print('all the same')"]))?;
        ensure!(printed == "all the same\n", "stdout is {printed:?}");
        ready(test_env, 2).map(drop)
    })
}

/// A killed run ends its own container and no other.
fn killed_run(test_env: &TestEnvironment) -> Result<()> {
    with_pool_daemon(test_env, |test_env| {
        let job = test_env.run_granted().args(["--warm", "1", "--timeout", "600s", "--lang", "python", "-c"]);
        run(test_env, job.clone().arg("0"))?;
        let waiting = ready(test_env, 1)?;
        let mut child = start_waiting_job(test_env, &job.arg(WAITING_PROGRAM))?;
        child.kill()?;
        child.wait()?;
        wait_until_empty(|| Ok(test_env.containers()?.into_iter().filter(|id| waiting.contains(id)).collect()))?;
        ready(test_env, 1).map(drop)
    })
}

/// A killed daemon ends all its containers, including that of a running job, which is reported as failed.
fn killed_daemon(test_env: &TestEnvironment) -> Result<()> {
    with_pool_daemon(test_env, |test_env| {
        let job = test_env.run_granted().args(["--warm", "1", "--timeout", "600s", "--lang", "python", "-c"]);
        run(test_env, job.clone().arg("0"))?;
        ready(test_env, 1)?;
        let mut child = start_waiting_job(test_env, &job.arg(WAITING_PROGRAM))?;
        let pool_daemons = pool_daemons(test_env);
        let killed = Command::new("kill").arg("-9").args(&pool_daemons).status()?;
        ensure!(pool_daemons.len() == 1 && killed.success(), "kill {pool_daemons:?}: {killed}");
        let status = child.wait()?;
        ensure!(!status.success(), "the job succeeded");
        // The next run removes the remains.
        let (_, printed) = run(test_env, test_env.run().args(["--lang", "python", "-c", "print('next')"]))?;
        ensure!(printed == "next\n", "stdout is {printed:?}");
        wait_until_empty(|| test_env.containers())
    })
}
