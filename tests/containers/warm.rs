//! Containers that are kept ready: each serves one run, of its own shape; whoever dies, nothing stays.

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

/// Ends the keeper, whatever became of the row: it would wait for ten minutes.
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

/// A run, and the container that it had.
fn run(ground: &Ground, job: Codebox) -> Result<(String, String)> {
    let report = ground.ends("ok", 0, job)?;
    let id = report.at("/provenance/container_id").as_str().context("no container is named")?;
    Ok((id.to_owned(), report.stdout().to_owned()))
}

/// The containers that wait, once there are this many.
fn ready(ground: &Ground, count: usize) -> Result<Vec<String>> {
    settle(|| {
        let found = ground.containers()?;
        let running = found.iter().filter(|id| is_running(ground, id)).count();
        Ok(if found.len() == count && running == count { Vec::new() } else { vec![format!("{found:?}")] })
    })?;
    // The keeper hears from an agent a moment after its container runs, and nobody hears that from the keeper.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let found = ground.containers()?;
    found.iter().for_each(|id| ground.saw(id));
    Ok(found)
}

fn is_running(ground: &Ground, id: &str) -> bool {
    ground.engine.inspect(id).is_ok_and(|told| told["State"]["Running"] == true)
}

/// A run whose job is up, and [waits](WAITING).
fn up(ground: &Ground, job: &Codebox) -> Result<Child> {
    let mut command = job.command();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let ready = ground.canaries.grant().join("ready");
    settle(|| Ok(if ready.exists() { Vec::new() } else { vec!["a job that does not come up".to_owned()] }))?;
    ensure!(child.try_wait()?.is_none(), "it was over before it was up");
    Ok(child)
}

/// The processes that keep containers ready for this ground.
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

/// The first run is as ever; the next ones have containers that were there before, each its own, with nothing of another's.
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

/// A run that would have had a container made otherwise gets none of those that wait.
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
        // Time is a job's own matter.
        let (id, _) = run(ground, warm(ground).args(["--timeout", "77s", "-c", "0"]))?;
        ensure!(waiting.contains(&id), "it had {id}, and {waiting:?} were waiting");
        Ok(())
    })
}

/// A granted directory is part of a shape, and what is written there is the caller's.
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

/// A lock that the caller holds is free once the run is over, though the keeper lives; and the keeper finds a home that was
/// named from where the run was started.
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

/// One that somebody removed while it waited is not given to anybody.
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

/// A run that is killed takes its container with it, and no other.
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

/// A keeper that is killed takes all with it, the job that has one of its containers too, which is told so.
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
        // What it leaves, the next run removes.
        let (_, printed) = run(ground, ground.run().args(["--lang", "python", "-c", "print('next')"]))?;
        ensure!(printed == "next\n", "it printed {printed:?}");
        settle(|| ground.containers())
    })
}
