//! S4 and S5: interference with the preparation of a runtime, and unreadable files.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use codebox_testkit::{Guest, Kit, Soak, soak};

use crate::Verdict;
use crate::plant::run_tool;
use crate::scenario::{Scenario, scenario};
use crate::tampering::copy_data;

pub fn trials() -> Vec<Scenario> {
    vec![
        scenario("S4::completes_killed_first_use", completes_killed_first_use),
        scenario("S5::reports_full_disk", reports_full_disk),
        scenario("F4::reports_unreadable_files", reports_unreadable_files),
    ]
}

fn prepared_entries(home: &Path) -> usize {
    fs::read_dir(home.join("cache/prepared")).map_or(0, Iterator::count)
}

/// Several processes find an unprepared runtime at once and the first is killed: the others complete the preparation.
fn completes_killed_first_use(kit: &Kit, guest: Guest) -> Result<Verdict> {
    if guest == Guest::Python && soak() == Soak::Short {
        return Ok(Verdict::Skipped("compiling takes minutes: set CODEBOX_SOAK=1".to_owned()));
    }
    let folder = kit.folder()?;
    let home = folder.path();
    copy_data(kit, home)?;
    let start = || -> Result<Child> {
        let mut command = kit.codebox().home(home).arg("run").args(guest.printing(1)).command();
        Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?)
    };
    let mut first = start()?;
    let start_time = Instant::now();
    while prepared_entries(home) == 0 && start_time.elapsed() < Duration::from_secs(30) {
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
    ensure!(prepared_entries(home) == 1, "files of the killed process are still there");
    Ok(Verdict::Passed)
}

/// A file system too small for the runtime keeps no partial files, and the error is one line that says that it is full.
fn reports_full_disk(kit: &Kit, guest: Guest) -> Result<Verdict> {
    let folder = kit.folder()?;
    let home = folder.path();
    copy_data(kit, home)?;
    let cache = home.join("cache");
    fs::create_dir(&cache)?;
    let at = cache.display().to_string();
    if let Err(error) = run_tool("mount", &["-t", "tmpfs", "-o", "size=8m,mode=0700", "tmpfs", &at]) {
        return Ok(Verdict::Skipped(format!("no small file system: {error:#}")));
    }
    let result = kit.run_json().home(home).args(guest.printing(1)).deadline(Duration::from_secs(300)).run();
    let remaining = prepared_entries(home);
    run_tool("umount", &[&at])?;
    let result = result?;
    let report = result.report()?;
    let message = report.at("/error/message").as_str().unwrap_or_default();
    ensure!(result.code == Some(125) && message.contains("space") && !message.contains('\n'), "{}", report.json());
    ensure!(remaining == 0, "an incomplete entry is left behind");
    Ok(Verdict::Passed)
}

/// A script and a directory that this user may not read are refused.
#[cfg(unix)]
fn reports_unreadable_files(kit: &Kit, guest: Guest) -> Result<Verdict> {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = kit.folder()?;
    let (script, dir) = (folder.path().join(guest.choose("secret.py", "secret.js")), folder.path().join("secret"));
    fs::write(&script, "1")?;
    fs::create_dir(&dir)?;
    for path in [&script, &dir] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o000))?;
    }
    if fs::read(&script).is_ok() {
        return Ok(Verdict::Skipped("this user may read everything".to_owned()));
    }
    let result = kit.codebox().arg("run").arg(&script).run()?;
    ensure!(result.code == Some(125) && result.stderr_text().contains("secret."), "{}", result.stderr_text());
    let result = kit.codebox().arg("run").grant(&dir, "/d", "ro").args(guest.inline("1")).run()?;
    ensure!(result.code == Some(126) && result.stderr_text().contains("secret"), "{}", result.stderr_text());
    Ok(Verdict::Passed)
}
