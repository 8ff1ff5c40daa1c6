//! F: file system.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use codebox_testkit::{Canaries, Guest, Kit, ProcessResult, Report};

use crate::attack::{Attack, CanaryArg, attack, check_sound};
use crate::scenario::{Scenario, scenario};
use crate::{Verdict, plant};

pub fn attacks() -> Vec<Attack> {
    let long_timeout = &["--timeout", "20s"];
    let data = &[("", "/data", "rw")];
    vec![
        attack("f1_traversal").canary_arg(CanaryArg::File).options(long_timeout),
        attack("f1_import").canary_arg(CanaryArg::File).options(long_timeout),
        attack("f2_symlink").canary_arg(CanaryArg::File).options(long_timeout),
        attack("f3_readonly")
            .options(long_timeout)
            .setup(plant::read_only)
            .mounts(&[("work", "/work", "rw"), ("ro", "/ro", "ro")])
            .verify(read_only_is_unchanged),
        attack("f4_planted").canary_arg(CanaryArg::Prefix).options(long_timeout).setup(plant::links).mounts(data),
        attack("f5_fifo")
            .arg("3")
            .options(&["--timeout", "10s"])
            .setup(plant::special_files)
            .mounts(data)
            .verify(ends_quickly),
        attack("f5_devices").options(&["--timeout", "30s", "--max-open-files", "200", "--max-disk", "1M"]),
        attack("f7_names").options(long_timeout),
        attack("f8_nonutf8").setup(plant::names).mounts(data).verify(|_, _, report| {
            ensure!(report.stdout().contains("good.txt"), "the valid names are not listed");
            Ok(())
        }),
        attack("f12_sparse").options(long_timeout).verify(writes_few_blocks).verify(ends_quickly),
        attack("f12_sparse").variant("private").mounts(&[]).options(long_timeout).verify(ends_quickly),
        attack("f13_fill").with("bytes").options(&["--timeout", "20s", "--max-disk", "32M"]).verify(usable_afterwards),
        attack("f13_fill").with("files").options(&["--timeout", "20s", "--max-files", "500"]).verify(usable_afterwards),
        attack("f13_fill")
            .with("folders")
            .options(&["--timeout", "20s", "--max-files", "500"])
            .verify(usable_afterwards),
        attack("f14_fds").options(&["--timeout", "20s", "--max-open-files", "64"]).verify(descriptors_are_limited),
        attack("r11_bomb").options(&["--timeout", "10s", "--memory", "256M", "--max-disk", "32M"]),
    ]
}

pub fn trials() -> Vec<Scenario> {
    vec![scenario("F4::nested_mount", nested_mount), scenario("F6::f6_flip", flip).with(&["f6_flip"])]
}

fn read_only_is_unchanged(canaries: &Canaries, _: &ProcessResult, _: &Report) -> Result<()> {
    let ro = canaries.grant().join("ro");
    ensure!(fs::read(ro.join("keep.txt"))? == b"keep\n", "the read-only file changed");
    let mut names: Vec<_> = fs::read_dir(&ro)?.map(|entry| Ok(entry?.file_name())).collect::<Result<_>>()?;
    names.sort();
    ensure!(names == ["folder", "keep.txt"], "the read-only folder holds {names:?}");
    ensure!(fs::read_dir(ro.join("folder"))?.next().is_none(), "the empty folder is not empty");
    Ok(())
}

/// File operations must not delay the end of a guest or of codebox.
fn ends_quickly(_: &Canaries, result: &ProcessResult, _: &Report) -> Result<()> {
    ensure!(result.wall < Duration::from_secs(8), "duration is {:?}", result.wall);
    ensure!(result.peak_threads < 16, "codebox has {} threads", result.peak_threads);
    Ok(())
}

#[cfg(unix)]
fn writes_few_blocks(canaries: &Canaries, _: &ProcessResult, _: &Report) -> Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let mut blocks = 0;
    for entry in fs::read_dir(canaries.grant())? {
        blocks += entry?.metadata()?.blocks();
    }
    ensure!(blocks * 512 < 4 << 20, "{} bytes are on the disk", blocks * 512);
    Ok(())
}

/// Removed data still counts against the limit; removals and other operations still work.
fn usable_afterwards(canaries: &Canaries, _: &ProcessResult, report: &Report) -> Result<()> {
    ensure!(!report.stdout().contains("survived"), "no limit was applied");
    let after = report.lines().iter().any(|line| line["op"] == "after");
    ensure!(after, "the program did not continue afterwards");
    ensure!(!canaries.grant().join("fill").exists(), "created files could not be removed");
    Ok(())
}

fn descriptors_are_limited(_: &Canaries, _: &ProcessResult, report: &Report) -> Result<()> {
    ensure!(!report.stdout().contains("survived"), "no limit was applied");
    Ok(())
}

/// A grant with a file system mounted below it is refused.
fn nested_mount(kit: &Kit, guest: Guest) -> Result<Verdict> {
    let canaries = Canaries::plant(kit)?;
    let below = canaries.grant().join("mounted");
    fs::create_dir(&below)?;
    let mount_point = below.display().to_string();
    if let Err(error) = plant::run_tool("mount", &["--bind", "/etc", &mount_point]) {
        return Ok(Verdict::Skipped(format!("cannot mount: {error:#}")));
    }
    let result = kit.run_json().grant(&canaries.grant(), "/data", "rw").args(guest.printing(1)).run();
    plant::run_tool("umount", &[&mount_point])?;
    let report = result?.report()?;
    ensure!(report.kind() == "path_rejected" && report.exit_code() == Some(126), "{}", report.json());
    Ok(Verdict::Passed)
}

/// Exchanges a folder and a link to the outside in a tight loop while a guest reads through it.
#[cfg(unix)]
fn flip(kit: &Kit, guest: Guest) -> Result<Verdict> {
    let canaries = Canaries::plant(kit)?;
    let grant = canaries.grant();
    let [d, aside, link] = ["d", "aside", "link"].map(|name| grant.join(name));
    fs::create_dir(&d)?;
    fs::write(d.join("canary"), "mine")?;
    std::os::unix::fs::symlink("..", &link)?;
    let done = AtomicBool::new(false);
    let result = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let steps = [(&d, &aside), (&link, &d), (&d, &link), (&aside, &d)];
                for (from, to) in steps {
                    // The guest only reads, so it does not move these entries.
                    let _ = fs::rename(from, to);
                }
            }
        });
        let run = canaries.around(kit.run_json()).args(["--timeout", "15s"]).grant(&grant, "/data", "rw");
        let result = run.arg(guest.hostile("f6_flip")).arg("2").run();
        // The checks walk the same directory, so the exchanges must stop first.
        done.store(true, Ordering::Relaxed);
        result
    })?;
    let report = check_sound(&result)?;
    ensure!(report.outcome() == "exited 0", "outcome is {}", report.outcome());
    canaries.check(&result)?;
    Ok(Verdict::Passed)
}
