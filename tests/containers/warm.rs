//! Warm containers: each serves one run of its own shape, and no remains stay after any process dies.

use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::Codebox;

use crate::ground::Ground;
use crate::residue::settle;
use crate::row::{Row, row};
use crate::watched::WAITING;

pub fn rows() -> Vec<Row> {
    vec![
        row("warm::serves", serves),
        row("warm::same_shape_only", same_shape_only),
        row("warm::granted", granted),
        row("warm::inherits_nothing", inherits_nothing),
        row("warm::removed_meanwhile", removed_meanwhile),
        row("warm::killed_run", killed_run),
        row("warm::killed_keeper", killed_keeper),
    ]
}

/// Runs the row and stops the pool daemon in any case; the daemon would otherwise wait for ten minutes.
fn with_keeper(ground: &Ground, row: fn(&Ground) -> Result<()>) -> Result<()> {
    let done = row(ground);
    let ended = ground.run().args(["--warm", "0", "--", "/bin/true"]).run()?;
    settle(|| Ok(keepers(ground)))?;
    done?;
    ensure!(ended.code == Some(0), "the run that ends it: {}", ended.stderr_text());
    Ok(())
}

fn warm(ground: &Ground) -> Codebox {
    ground.run().args(["--warm", "2", "--lang", "python"])
}

/// Runs a job and returns its container and its output.
fn run(ground: &Ground, job: Codebox) -> Result<(String, String)> {
    let report = ground.ends("ok", 0, job)?;
    let id = report.at("/provenance/container_id").as_str().context("no container is named")?;
    Ok((id.to_owned(), report.stdout().to_owned()))
}

/// Waits for this many ready containers and returns them.
fn ready(ground: &Ground, count: usize) -> Result<Vec<String>> {
    settle(|| {
        let found = ground.containers()?;
        let running = found.iter().filter(|id| is_running(ground, id)).count();
        Ok(if found.len() == count && running == count { Vec::new() } else { vec![format!("{found:?}")] })
    })?;
    // The daemon learns of an agent a moment after its container runs, and does not announce it.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let found = ground.containers()?;
    found.iter().for_each(|id| ground.saw(id));
    Ok(found)
}

fn is_running(ground: &Ground, id: &str) -> bool {
    ground.engine.inspect(id).is_ok_and(|told| told["State"]["Running"] == true)
}

/// Starts a run whose job is up and [waits](WAITING).
fn up(ground: &Ground, job: &Codebox) -> Result<Child> {
    let mut command = job.command();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let ready = ground.canaries.grant().join("ready");
    settle(|| Ok(if ready.exists() { Vec::new() } else { vec!["a job that does not come up".to_owned()] }))?;
    ensure!(child.try_wait()?.is_none(), "it was over before it was up");
    Ok(child)
}

/// Lists the daemon processes that keep containers ready for this environment.
fn keepers(ground: &Ground) -> Vec<String> {
    let home = format!("CODEBOX_HOME={}", ground.home().display());
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
fn serves(ground: &Ground) -> Result<()> {
    with_keeper(ground, |ground| {
        let job = "import os\nprint(sorted(os.listdir('/work') + os.listdir('/tmp')), input())\n\
                   open('/work/mine', 'w').close()\nopen('/tmp/mine', 'w').close()";
        let run = |word: &str| {
            run(ground, warm(ground).args(["-c", job]).input(codebox_testkit::Input::Bytes(word.as_bytes().to_vec())))
        };
        run("cold")?;
        let mut had = Vec::new();
        for word in ["one", "two", "three"] {
            let waiting = ready(ground, 2)?;
            let (id, printed) = run(word)?;
            ensure!(printed == format!("[] {word}\n"), "it printed {printed:?}");
            ensure!(waiting.contains(&id), "it had {id}, and {waiting:?} were waiting");
            ensure!(!had.contains(&id), "{id} served twice");
            had.push(id);
        }
        ensure!(keepers(ground).len() == 1, "there are keepers {:?}", keepers(ground));
        Ok(())
    })
}

/// A run whose container would be created with other settings does not get a ready container.
fn same_shape_only(ground: &Ground) -> Result<()> {
    with_keeper(ground, |ground| {
        run(ground, warm(ground).args(["-c", "0"]))?;
        let waiting = ready(ground, 2)?;
        let other = [
            warm(ground).args(["--memory", "200M", "-c", "0"]),
            warm(ground).grant(&ground.canaries.grant(), "/data", "ro").args(["-c", "0"]),
            ground.run_hostile().args(["--warm", "2", "--lang", "python", "-c", "0"]),
            ground.run().args(["--lang", "python", "-c", "0"]),
        ];
        for job in other {
            let report = ground.judge(&job.run()?)?;
            let id = report.at("/provenance/container_id").as_str().context("no container is named")?.to_owned();
            ensure!(!waiting.contains(&id), "it had one of those that wait: {}", report.json());
        }
        // The time limit is not part of a container's shape.
        let (id, _) = run(ground, warm(ground).args(["--timeout", "77s", "-c", "0"]))?;
        ensure!(waiting.contains(&id), "it had {id}, and {waiting:?} were waiting");
        Ok(())
    })
}

/// A granted directory is part of the shape, and files written there belong to the caller.
fn granted(ground: &Ground) -> Result<()> {
    with_keeper(ground, |ground| {
        let job = |name: &str| {
            let code = format!("open('/data/{name}', 'x').write('{name}')");
            ground.run_granted().args(["--warm", "1", "--lang", "python", "-c", &code])
        };
        run(ground, job("cold"))?;
        let waiting = ready(ground, 1)?;
        let (id, _) = run(ground, job("ready"))?;
        ensure!(waiting == [id], "it had another than {waiting:?}");
        for name in ["cold", "ready"] {
            let path = ground.canaries.grant().join(name);
            ensure!(std::fs::read_to_string(&path)? == name, "{} is not whole", path.display());
            let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&path)?);
            ensure!(owner == 0, "{} belongs to {owner}", path.display());
            std::fs::remove_file(&path)?;
        }
        Ok(())
    })
}

/// A lock that the caller holds is released at the end of the run although the daemon lives; and the daemon finds a
/// home that was given relative to the run's working directory.
fn inherits_nothing(ground: &Ground) -> Result<()> {
    with_keeper(ground, |ground| {
        let lock = ground.canaries.grant().join("lock");
        let run = ground.run().args(["--warm", "1", "--", "/bin/true"]).command();
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", "exec 9>\"$0\" && flock 9 && exec \"$@\""])
            .arg(&lock)
            .arg(run.get_program())
            .args(run.get_args());
        shell
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("CODEBOX_HOME", ground.home().file_name().context("a name")?);
        shell.current_dir(ground.home().parent().context("a parent")?).stdin(Stdio::null()).stdout(Stdio::null());
        let status = shell.status()?;
        ensure!(status.success(), "the run: {status}");
        ready(ground, 1)?;
        let held = std::fs::File::open(&lock)?.try_lock();
        ensure!(held.is_ok(), "somebody still holds the caller's lock");
        std::fs::remove_file(&lock)?;
        Ok(())
    })
}

/// A ready container that another process removed is not used.
fn removed_meanwhile(ground: &Ground) -> Result<()> {
    with_keeper(ground, |ground| {
        run(ground, warm(ground).args(["-c", "0"]))?;
        for id in ready(ground, 2)? {
            ground.engine.says(&["rm", "--force", &id])?;
        }
        let (_, printed) = run(ground, warm(ground).args(["-c", "print('all the same')"]))?;
        ensure!(printed == "all the same\n", "it printed {printed:?}");
        ready(ground, 2).map(drop)
    })
}

/// A killed run ends its own container and no other.
fn killed_run(ground: &Ground) -> Result<()> {
    with_keeper(ground, |ground| {
        let job = ground.run_granted().args(["--warm", "1", "--timeout", "600s", "--lang", "python", "-c"]);
        run(ground, job.clone().arg("0"))?;
        let waiting = ready(ground, 1)?;
        let mut child = up(ground, &job.arg(WAITING))?;
        child.kill()?;
        child.wait()?;
        settle(|| Ok(ground.containers()?.into_iter().filter(|id| waiting.contains(id)).collect()))?;
        ready(ground, 1).map(drop)
    })
}

/// A killed daemon ends all its containers, including that of a running job, which is reported as failed.
fn killed_keeper(ground: &Ground) -> Result<()> {
    with_keeper(ground, |ground| {
        let job = ground.run_granted().args(["--warm", "1", "--timeout", "600s", "--lang", "python", "-c"]);
        run(ground, job.clone().arg("0"))?;
        ready(ground, 1)?;
        let mut child = up(ground, &job.arg(WAITING))?;
        let keepers = keepers(ground);
        let killed = Command::new("kill").arg("-9").args(&keepers).status()?;
        ensure!(keepers.len() == 1 && killed.success(), "kill {keepers:?}: {killed}");
        let status = child.wait()?;
        ensure!(!status.success(), "the job ended well");
        // The next run removes the remains.
        let (_, printed) = run(ground, ground.run().args(["--lang", "python", "-c", "print('next')"]))?;
        ensure!(printed == "next\n", "it printed {printed:?}");
        settle(|| ground.containers())
    })
}
