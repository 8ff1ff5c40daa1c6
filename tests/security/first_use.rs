//! S4 and S5: interference with the preparation of a runtime, and unreadable files.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use codebox_testkit::{Guest, Kit, Soak, soak};

use crate::Verdict;
use crate::compound::{Compound, compound};
use crate::plant::tool;
use crate::tampering::copy_data;

pub fn trials() -> Vec<Compound> {
    vec![
        compound("S4::a_killed_first_use_is_taken_over", taken_over),
        compound("S5::a_full_disk_is_named", full_disk),
        compound("F4::unreadable_files_are_named", unreadable),
    ]
}

fn being_made(home: &Path) -> usize {
    fs::read_dir(home.join("cache/prepared")).map_or(0, Iterator::count)
}

/// Several processes find an unprepared runtime at once and the first is killed: the others complete the preparation.
fn taken_over(kit: &Kit, guest: Guest) -> Result<Verdict> {
    if guest == Guest::Python && soak() == Soak::Short {
        return Ok(Verdict::Impossible("compiling takes minutes: set CODEBOX_SOAK=1".to_owned()));
    }
    let folder = kit.folder()?;
    let home = folder.path();
    copy_data(kit, home)?;
    let start = || -> Result<Child> {
        let mut command = kit.codebox().home(home).arg("run").args(guest.printing(1)).command();
        Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?)
    };
    let mut first = start()?;
    let began = Instant::now();
    while being_made(home) == 0 && began.elapsed() < Duration::from_secs(30) {
        thread::sleep(Duration::from_millis(20));
    }
    let others = [start()?, start()?, start()?];
    thread::sleep(guest.choose(Duration::from_secs(2), Duration::from_millis(500)));
    first.kill()?;
    first.wait()?;
    for other in others {
        let output = other.wait_with_output()?;
        ensure!(output.stdout == b"1\n", "a later process did not run: {:?}", output.status);
    }
    ensure!(being_made(home) == 1, "what the killed process left is still there");
    Ok(Verdict::Held)
}

/// A file system too small for the runtime keeps no partial files, and the error is one line that says that it is full.
fn full_disk(kit: &Kit, guest: Guest) -> Result<Verdict> {
    let folder = kit.folder()?;
    let home = folder.path();
    copy_data(kit, home)?;
    let cache = home.join("cache");
    fs::create_dir(&cache)?;
    let at = cache.display().to_string();
    if let Err(error) = tool("mount", &["-t", "tmpfs", "-o", "size=8m,mode=0700", "tmpfs", &at]) {
        return Ok(Verdict::Impossible(format!("no small file system: {error:#}")));
    }
    let ran = kit.run_json().home(home).args(guest.printing(1)).deadline(Duration::from_secs(300)).run();
    let left = being_made(home);
    tool("umount", &[&at])?;
    let ran = ran?;
    let report = ran.report()?;
    let message = report.at("/error/message").as_str().unwrap_or_default();
    ensure!(ran.code == Some(125) && message.contains("space") && !message.contains('\n'), "{}", report.json());
    ensure!(left == 0, "something half-done is left");
    Ok(Verdict::Held)
}

/// A script and a directory that this user may not read are refused.
#[cfg(unix)]
fn unreadable(kit: &Kit, guest: Guest) -> Result<Verdict> {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = kit.folder()?;
    let (script, dir) = (folder.path().join(guest.choose("secret.py", "secret.js")), folder.path().join("secret"));
    fs::write(&script, "1")?;
    fs::create_dir(&dir)?;
    for path in [&script, &dir] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o000))?;
    }
    if fs::read(&script).is_ok() {
        return Ok(Verdict::Impossible("this user may read everything".to_owned()));
    }
    let ran = kit.codebox().arg("run").arg(&script).run()?;
    ensure!(ran.code == Some(125) && ran.stderr_text().contains("secret."), "{}", ran.stderr_text());
    let ran = kit.codebox().arg("run").grant(&dir, "/d", "ro").args(guest.inline("1")).run()?;
    ensure!(ran.code == Some(126) && ran.stderr_text().contains("secret"), "{}", ran.stderr_text());
    Ok(Verdict::Held)
}
