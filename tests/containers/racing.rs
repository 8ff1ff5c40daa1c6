//! C15 and P6: directories that become links and back during collection and removal.

use std::fs;

use anyhow::{Result, ensure};
use codebox_testkit::Codebox;

use crate::ground::{Ground, program};
use crate::residue::{processes_of, settle};
use crate::row::{Row, row};
use crate::watched::Started;

pub fn rows() -> Vec<Row> {
    vec![
        row("C15::own_swapper", own_swapper),
        row("C15::other_jobs_swapper", other_jobs_swapper),
        row("P6::removed_while_swapping", removed_while_swapping),
    ]
}

fn swapping(ground: &Ground, job: Codebox, places: &[&str]) -> Codebox {
    let job = job.args(["--timeout", "100s"]).arg(program("swapping.py")).arg(ground.canaries.file());
    job.args(places.iter().copied())
}

/// A swapper that outlives its job's first process, limited by the container and the job's time limit.
fn own_swapper(ground: &Ground) -> Result<()> {
    for _ in 0..5 {
        let out = ground.kit.folder()?;
        let job =
            ground.run().args(["--timeout", "1s", "--out"]).arg(out.path().join("out")).arg(program("swapping.py"));
        ground.ends("timeout_wall", 124, job.arg(ground.canaries.file()).args(["/work", "/tmp"]))?;
        unread(ground, out.path())?;
    }
    Ok(())
}

/// One job swaps while the files of other jobs, which share its directory, are collected.
fn other_jobs_swapper(ground: &Ground) -> Result<()> {
    let grant = ground.canaries.grant();
    let job = swapping(ground, ground.run_granted(), &["/data"]);
    let mut swapper = Started::new(ground, &job)?;
    for _ in 0..20 {
        let out = ground.kit.folder()?;
        let job = ground.run().grant(&grant, "/work", "rw").arg("--out").arg(out.path().join("out"));
        let write = "import os\nfor n in range(20):\n    for d in ('.', 'swap'):\n        try: open(f'{d}/new{n}', 'w').write('mine')\n        except OSError: pass";
        // The host's own check of the directory would follow the links that are being swapped.
        let ran = job.args(["--lang", "python", "-c", write]).run()?;
        ensure!(ran.report()?.kind() == "ok", "it ended as {}", ran.stdout_text());
        came_out(ground, out.path())?;
    }
    ensure!(swapper.child.try_wait()?.is_none(), "the swapper was over before the last collection");
    swapper.kill()?;
    swept(ground)?;
    settle(|| Ok(processes_of(&swapper.id)))
}

/// codebox is killed, and its remains are removed while its job may still be swapping.
fn removed_while_swapping(ground: &Ground) -> Result<()> {
    for _ in 0..3 {
        let _ = fs::remove_file(ground.canaries.grant().join("ready"));
        let job = swapping(ground, ground.run_granted(), &["/work", "/tmp"]);
        Started::new(ground, &job)?.kill()?;
        swept(ground)?;
        ground.canaries.check_host()?;
    }
    Ok(())
}

/// Sweeps until all remains are gone, because an engine may be removing them concurrently.
fn swept(ground: &Ground) -> Result<()> {
    settle(|| {
        let ran = ground.codebox().arg("gc").run()?;
        let left = ground.containers()?;
        ensure!(ran.code == Some(0) || !left.is_empty(), "gc: {} {}", ran.stdout_text(), ran.stderr_text());
        Ok(left)
    })
}

/// Checks that no collected file holds the secret or is a link, and that nothing else on the host was changed.
fn unread(ground: &Ground, out: &std::path::Path) -> Result<()> {
    came_out(ground, out)?;
    ground.canaries.check_host()
}

/// Checks that no collected file holds the secret or is a link.
fn came_out(ground: &Ground, out: &std::path::Path) -> Result<()> {
    let mut folders = vec![out.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            ensure!(kind.is_file() || kind.is_dir(), "{} came out", entry.path().display());
            if kind.is_dir() {
                folders.push(entry.path());
            } else {
                let text = fs::read_to_string(entry.path())?;
                ensure!(!text.contains(ground.canaries.secret()), "{} holds the secret", entry.path().display());
            }
        }
    }
    Ok(())
}
