//! Bounds on the host's work for a guest: writes to read-only grants, copies, memory and waits.

use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Result, ensure};
use codebox_testkit::{Canaries, Guest, Kit};

use crate::attack::check_sound;
use crate::scenario::{Scenario, scenario};
use crate::{Verdict, plant};

pub fn trials() -> Vec<Scenario> {
    vec![
        scenario("P12::dangling_links_into_a_read_only_grant", dangling_links).with(&["p12_dangling"]),
        scenario("F12::limits_output_size", limits_output_size).with(&["f12_outputs"]),
        scenario("F12::reads_hard_linked_file_once", names).with(&["f12_names"]),
        scenario("L7::deadline_applies_with_stalled_reader", deadline_applies_with_stalled_reader)
            .with(&["l7_stalled"]),
        scenario("L7::deadline_applies_without_usable_signals", deadline_applies_without_usable_signals),
        scenario("R3::bounds_message_memory", bounds_message_memory).with(&["r3_messages"]),
        scenario("S5::rejects_endless_project_file", project_file).only(Guest::Python),
        scenario("F13::removes_deep_tree_with_few_descriptors", removes_deep_tree).with(&["f13_deep"]),
    ]
}

/// A file cannot be created through a dangling link into a read-only grant inside a writable one.
fn dangling_links(kit: &Kit, guest: Guest) -> Result<Verdict> {
    let canaries = Canaries::plant(kit)?;
    let grant = canaries.grant();
    let protected = grant.join("p/sub");
    fs::create_dir_all(&protected)?;
    let other = grant.join("q");
    let kept = other.join("kept");
    fs::create_dir(&other)?;
    fs::write(&kept, "kept")?;
    let before = [fs::metadata(&protected)?.modified()?, fs::metadata(&kept)?.modified()?];
    let run = kit.run_json().grant(&grant, "/g", "rw").grant(&protected, "/s", "ro").grant(&other, "/t", "ro");
    let run = run.arg(guest.hostile("p12_dangling"));
    let report = check_sound(&run.run()?)?;
    ensure!(report.outcome() == "exited 0", "{}", report.json());
    ensure!(!report.stdout().contains("open went") && !report.stdout().contains("chain went"), "{}", report.stdout());
    for name in ["mkdir", "rename", "rmdir", "utimes", "futimes"] {
        ensure!(!report.stdout().contains(&format!("{name} went")), "{name}: {}", report.stdout());
    }
    ensure!(fs::read_dir(&protected)?.next().is_none(), "a file was created in the read-only grant");
    ensure!(fs::metadata(&protected)?.modified()? == before[0], "the read-only grant was modified");
    ensure!(fs::metadata(&kept)?.modified()? == before[1], "the times of a read-only file were modified");
    ensure!(fs::read(&kept)? == b"kept", "a read-only file was modified");
    Ok(Verdict::Passed)
}

/// Sparse files and hard links are larger than the data written; the size of the output is still limited.
fn limits_output_size(kit: &Kit, guest: Guest) -> Result<Verdict> {
    let canaries = Canaries::plant(kit)?;
    let out = canaries.grant().join("out");
    let run = kit.run_json().args(["--max-disk", "50M", "--timeout", "20s"]).arg("--out").arg(&out);
    let report = check_sound(&run.arg(guest.hostile("f12_outputs")).run()?)?;
    ensure!(report.outcome() == "exited 0", "{}", report.json());
    let copied = total_length(&out)?;
    ensure!(copied > 0 && copied <= 50 << 20, "{copied} bytes were copied out");
    let skipped = report.at("/files/skipped").as_array().map_or(0, Vec::len);
    ensure!(skipped >= 30, "{skipped} files are named as left behind: {}", report.at("/files/skipped"));
    Ok(Verdict::Passed)
}

fn total_length(dir: &Path) -> Result<u64> {
    fs::read_dir(dir)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}

/// 500 names of 40 MiB would add up to 20 GB if each were read.
fn names(kit: &Kit, guest: Guest) -> Result<Verdict> {
    let result = kit
        .run_json()
        .args(["--timeout", "10s"])
        .arg(guest.hostile("f12_names"))
        .deadline(Duration::from_secs(60))
        .run()?;
    let report = check_sound(&result)?;
    let files = report.at("/files/created").as_array().cloned().unwrap_or_default();
    ensure!(files.len() == 501, "{} files are listed", files.len());
    let digests: std::collections::BTreeSet<_> = files.iter().map(|file| file["sha256"].to_string()).collect();
    ensure!(digests.len() == 1 && !digests.contains("null"), "{digests:?}");
    Ok(Verdict::Passed)
}

/// Output to a pipe without a reader blocks the guest until its deadline ends it.
fn deadline_applies_with_stalled_reader(kit: &Kit, guest: Guest) -> Result<Verdict> {
    let canaries = Canaries::plant(kit)?;
    let pipe = canaries.grant().join("pipe");
    plant::run_tool("mkfifo", &[&pipe.display().to_string()])?;
    // Both ends are open, so that writes neither fail nor complete.
    let reader = OpenOptions::new().read(true).write(true).open(&pipe)?;
    let command_for = |mode: &str| {
        kit.codebox().args(["run", "--timeout", "1s"]).arg(guest.hostile("l7_stalled")).arg(mode).command()
    };
    for mode in ["lines", "once"] {
        let mut command = command_for(mode);
        let out = File::options().write(true).open(&pipe)?;
        let mut child = command.stdin(Stdio::null()).stdout(out).stderr(Stdio::piped()).spawn()?;
        let mut waited = Duration::ZERO;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            ensure!(waited < Duration::from_secs(30), "the deadline of one second was not enforced");
            std::thread::sleep(Duration::from_millis(50));
            waited += Duration::from_millis(50);
        };
        ensure!(status.code() == Some(124), "{mode}: {status}");
    }
    // Standard error blocks in the same way, including codebox's own messages at the end.
    let mut command = command_for("errors");
    let errors = File::options().write(true).open(&pipe)?;
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn()?;
    let mut waited = Duration::ZERO;
    while child.try_wait()?.is_none() {
        ensure!(waited < Duration::from_secs(30), "a stalled reader of standard error blocked the end");
        std::thread::sleep(Duration::from_millis(50));
        waited += Duration::from_millis(50);
    }
    drop(reader);
    Ok(Verdict::Passed)
}

/// The deadline holds in a process that inherits real-time signals as ignored or blocked.
fn deadline_applies_without_usable_signals(kit: &Kit, guest: Guest) -> Result<Verdict> {
    let signals = "import os, signal, sys\nrealtime = range(signal.SIGRTMIN, signal.SIGRTMAX + 1)\n";
    let change = [
        "for number in realtime: signal.signal(number, signal.SIG_IGN)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, realtime)",
    ];
    for change in change {
        let mut command = std::process::Command::new("python3");
        command.args(["-c", &format!("{signals}{change}\nos.execv(sys.argv[1], sys.argv[1:])")]).arg(kit.binary());
        command.args(["run", "--timeout", "1s"]).args(guest.inline(guest.choose("while True: pass", "for (;;);")));
        let output = command.env("CODEBOX_HOME", kit.home()).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(124), "{change}: {}: {errors}", output.status);
    }
    Ok(Verdict::Passed)
}

/// A tree deeper than the number of descriptors is removed after the job, and the next job starts immediately.
fn removes_deep_tree(kit: &Kit, guest: Guest) -> Result<Verdict> {
    let binary = kit.binary().display();
    let home = kit.home().display();
    let shell = format!("ulimit -n 256; CODEBOX_HOME='{home}' exec '{binary}' run --json --timeout 20s \"$PROGRAM\"");
    let output =
        std::process::Command::new("sh").args(["-c", &shell]).env("PROGRAM", guest.hostile("f13_deep")).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    // Other trials run at the same time. Only remains of an ended process have files but no lock.
    for entry in fs::read_dir(kit.home().join("cache/scratch"))? {
        let path = entry?.path();
        let names: Vec<_> =
            fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
        let has_remains = !names.is_empty() && !names.iter().any(|name| name == "lock" || name == "lock.new");
        ensure!(!has_remains, "{} was left with {names:?}", path.display());
    }
    Ok(Verdict::Passed)
}

/// The host keeps only a part of a guest's messages.
fn bounds_message_memory(kit: &Kit, guest: Guest) -> Result<Verdict> {
    let result =
        kit.run_json().args(["--memory", "64M", "--timeout", "30s"]).arg(guest.hostile("r3_messages")).run()?;
    let report = check_sound(&result)?;
    ensure!(report.outcome() == "exited 0", "{}", report.outcome());
    ensure!(result.peak_rss < (64 + 160) << 20, "{} MiB were resident", result.peak_rss >> 20);
    ensure!(result.stdout.len() < 2 << 20, "the report has {} bytes", result.stdout.len());
    Ok(Verdict::Passed)
}

/// A `codebox.toml` that is a pipe or a device is refused without being read.
fn project_file(kit: &Kit, guest: Guest) -> Result<Verdict> {
    let canaries = Canaries::plant(kit)?;
    let folder = canaries.grant();
    let file = folder.join("codebox.toml");
    let plant_pipe = || plant::run_tool("mkfifo", &[&file.display().to_string()]);
    let plant_link = || Ok(std::os::unix::fs::symlink("/dev/zero", &file)?);
    let plants: [&dyn Fn() -> Result<()>; 2] = [&plant_pipe, &plant_link];
    for plant in plants {
        plant()?;
        let result = kit.run_json().folder(&folder).args(guest.printing(1)).deadline(Duration::from_secs(20)).run()?;
        let report = result.report()?;
        ensure!(report.kind() == "invalid_request" && report.exit_code() == Some(125), "{}", report.json());
        ensure!(report.json().to_string().contains("codebox.toml"), "{}", report.json());
        fs::remove_file(&file)?;
    }
    Ok(Verdict::Passed)
}
