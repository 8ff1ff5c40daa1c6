//! C15 and P6: directories that become links and back during collection and removal.

use std::fs;

use anyhow::{Result, ensure};
use codebox_testkit::Codebox;

use crate::residue::{container_processes, wait_until_empty};
use crate::row::{Row, row};
use crate::running_jobs::RunningJob;
use crate::test_env::{TestEnvironment, program};

pub fn rows() -> Vec<Row> {
    vec![
        row("C15::own_swapping_process", own_swapping_process),
        row("C15::concurrent_swapping_job", concurrent_swapping_job),
        row("P6::removed_while_swapping", removed_while_swapping),
    ]
}

fn swap_job(test_env: &TestEnvironment, job: Codebox, places: &[&str]) -> Codebox {
    let job = job.args(["--timeout", "100s"]).arg(program("swapping.py")).arg(test_env.canaries.file());
    job.args(places.iter().copied())
}

/// A swapper that outlives its job's first process, limited by the container and the job's time limit.
fn own_swapping_process(test_env: &TestEnvironment) -> Result<()> {
    for _ in 0..5 {
        let out = test_env.kit.folder()?;
        let job =
            test_env.run().args(["--timeout", "1s", "--out"]).arg(out.path().join("out")).arg(program("swapping.py"));
        test_env.run_expecting("timeout_wall", 124, job.arg(test_env.canaries.file()).args(["/work", "/tmp"]))?;
        check_output_and_host(test_env, out.path())?;
    }
    Ok(())
}

/// One job swaps while the files of other jobs, which share its directory, are collected.
fn concurrent_swapping_job(test_env: &TestEnvironment) -> Result<()> {
    let grant = test_env.canaries.grant();
    let job = swap_job(test_env, test_env.run_granted(), &["/data"]);
    let mut swapper = RunningJob::new(test_env, &job)?;
    for _ in 0..20 {
        let out = test_env.kit.folder()?;
        let job = test_env.run().grant(&grant, "/work", "rw").arg("--out").arg(out.path().join("out"));
        let write = "import os\nfor n in range(20):\n    for d in ('.', 'swap'):\n        try: open(f'{d}/new{n}', 'w').write('mine')\n        except OSError: pass";
        // The host's own check of the directory would follow the links that are being swapped.
        let result = job.args(["--lang", "python", "-c", write]).run()?;
        ensure!(result.report()?.kind() == "ok", "unexpected result: {}", result.stdout_text());
        check_output(test_env, out.path())?;
    }
    ensure!(swapper.child.try_wait()?.is_none(), "the swapping program ended before the last collection");
    swapper.kill()?;
    run_gc_until_clean(test_env)?;
    wait_until_empty(|| Ok(container_processes(&swapper.id)))
}

/// codebox is killed, and its remains are removed while its job may still be swapping.
fn removed_while_swapping(test_env: &TestEnvironment) -> Result<()> {
    for _ in 0..3 {
        let _ = fs::remove_file(test_env.canaries.grant().join("ready"));
        let job = swap_job(test_env, test_env.run_granted(), &["/work", "/tmp"]);
        RunningJob::new(test_env, &job)?.kill()?;
        run_gc_until_clean(test_env)?;
        test_env.canaries.check_host()?;
    }
    Ok(())
}

/// Sweeps until all remains are gone, because an engine may be removing them concurrently.
fn run_gc_until_clean(test_env: &TestEnvironment) -> Result<()> {
    wait_until_empty(|| {
        let result = test_env.codebox().arg("gc").run()?;
        let left = test_env.containers()?;
        ensure!(result.code == Some(0) || !left.is_empty(), "gc: {} {}", result.stdout_text(), result.stderr_text());
        Ok(left)
    })
}

/// Checks that no collected file holds the secret or is a link, and that nothing else on the host was changed.
fn check_output_and_host(test_env: &TestEnvironment, out: &std::path::Path) -> Result<()> {
    check_output(test_env, out)?;
    test_env.canaries.check_host()
}

/// Checks that no collected file holds the secret or is a link.
fn check_output(test_env: &TestEnvironment, out: &std::path::Path) -> Result<()> {
    let mut folders = vec![out.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            ensure!(kind.is_file() || kind.is_dir(), "{} was copied out", entry.path().display());
            if kind.is_dir() {
                folders.push(entry.path());
            } else {
                let text = fs::read_to_string(entry.path())?;
                ensure!(!text.contains(test_env.canaries.secret()), "{} holds the secret", entry.path().display());
            }
        }
    }
    Ok(())
}
