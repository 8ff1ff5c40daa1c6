//! What a guest may make the host do: write to a read-only grant, copy, keep, wait.

use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Result, ensure};
use codebox_testkit::{Canaries, Kit};

use crate::attack::sound;
use crate::{Compound, Verdict, plant};

pub fn compound() -> Vec<Compound> {
    vec![
        ("P12::dangling_links_into_a_read_only_grant", Vec::new(), dangling),
        ("F12::outputs_are_no_longer_than_the_disk_limit", Vec::new(), outputs),
        ("F12::one_file_with_many_names_is_read_once", Vec::new(), names),
        ("L7::a_stalled_reader_does_not_stop_the_clock", Vec::new(), stalled),
        ("R3::messages_take_no_memory", Vec::new(), messages),
        ("S5::a_project_file_that_never_ends", Vec::new(), project_file),
        ("F13::a_deep_tree_is_removed_with_few_descriptors", Vec::new(), deep),
    ]
}

/// A writable grant that holds a read-only one: making a file through a link that leads nowhere yet.
fn dangling(kit: &Kit) -> Result<Verdict> {
    let canaries = Canaries::plant(kit)?;
    let grant = canaries.grant();
    let protected = grant.join("p/sub");
    fs::create_dir_all(&protected)?;
    let before = fs::metadata(&protected)?.modified()?;
    let program = r#"
import os
def tries(name, action):
    try:
        action()
    except OSError as error:
        print(name, type(error).__name__)
    else:
        print(name, "went through")
for number, target in enumerate(["p/sub/new", "p/sub/../sub/new", "./p//sub/new"]):
    os.symlink(target, f"/g/link{number}")
    tries("open", lambda: open(f"/g/link{number}", "w").write("x"))
    os.symlink(f"link{number}", f"/g/chain{number}")
    tries("chain", lambda: open(f"/g/chain{number}", "a").write("x"))
os.symlink("p/sub", "/g/folder")
for end in ["/", "/.", "/..", "/new/.."]:
    tries("times", lambda: os.utime("/g/folder" + end, (1, 1), follow_symlinks=False))
tries("mkdir", lambda: os.mkdir("/g/folder/new"))
os.symlink(".", "/g/dot")
os.mkdir("/g/other")
for place in ["p", "./p", "other/../p", "dot/p", "dot/dot/./p", "p/sub", "other/../p/sub", "dot/p/sub"]:
    tries("rename", lambda: os.rename("/g/" + place, "/g/moved"))
    tries("rmdir", lambda: os.rmdir("/g/" + place))
fd = os.open("/g/folder", os.O_RDONLY)
tries("futimes", lambda: os.utime(fd, (1, 1)))
"#;
    let run = kit.run_json().grant(&grant, "/g", "rw").grant(&protected, "/s", "ro").args(["-c", program]);
    let report = sound(&run.run()?)?;
    ensure!(report.outcome() == "exited 0", "{}", report.json());
    ensure!(!report.stdout().contains("open went") && !report.stdout().contains("chain went"), "{}", report.stdout());
    for name in ["mkdir", "rename", "rmdir", "futimes"] {
        ensure!(!report.stdout().contains(&format!("{name} went")), "{name}: {}", report.stdout());
    }
    ensure!(fs::read_dir(&protected)?.next().is_none(), "something was made in the read-only grant");
    ensure!(fs::metadata(&protected)?.modified()? == before, "the read-only grant was touched");
    Ok(Verdict::Held)
}

/// Sparse files and hard links are longer than what was written; what is brought out is bounded all the same.
fn outputs(kit: &Kit) -> Result<Verdict> {
    let canaries = Canaries::plant(kit)?;
    let out = canaries.grant().join("out");
    let program = r#"
import os
for name in ["a", "b"]:
    with open(name, "wb") as file:
        file.seek((1 << 30) - 5000)
        file.write(b"x")
open("c", "wb").write(bytes(20 << 20))
for number in range(30):
    os.link("c", f"c{number}")
"#;
    let run = kit.run_json().args(["--max-disk", "50M", "--timeout", "20s"]).arg("--out").arg(&out);
    let report = sound(&run.args(["-c", program]).run()?)?;
    ensure!(report.outcome() == "exited 0", "{}", report.json());
    let brought = lengths(&out)?;
    ensure!(brought > 0 && brought <= 50 << 20, "{brought} bytes were brought out");
    let skipped = report.at("/files/skipped").as_array().map_or(0, Vec::len);
    ensure!(skipped >= 30, "{skipped} files are named as left behind: {}", report.at("/files/skipped"));
    Ok(Verdict::Held)
}

fn lengths(dir: &Path) -> Result<u64> {
    fs::read_dir(dir)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}

/// 500 names of 40 MiB are 20 GB to whoever reads each of them.
fn names(kit: &Kit) -> Result<Verdict> {
    let program = r#"
import os
with open("long", "wb") as file:
    file.truncate(40 << 20)
for number in range(500):
    os.link("long", f"name{number}")
"#;
    let ran = kit.run_json().args(["--timeout", "10s", "-c", program]).deadline(Duration::from_secs(60)).run()?;
    let report = sound(&ran)?;
    let files = report.at("/files/created").as_array().cloned().unwrap_or_default();
    ensure!(files.len() == 501, "{} files are listed", files.len());
    let digests: std::collections::BTreeSet<_> = files.iter().map(|file| file["sha256"].to_string()).collect();
    ensure!(digests.len() == 1 && !digests.contains("null"), "{digests:?}");
    Ok(Verdict::Held)
}

/// Output into a pipe that nobody reads: the guest waits, and its deadline ends it.
fn stalled(kit: &Kit) -> Result<Verdict> {
    let canaries = Canaries::plant(kit)?;
    let pipe = canaries.grant().join("pipe");
    plant::tool("mkfifo", &[&pipe.display().to_string()])?;
    // Open at both ends, so that writing neither fails nor ends.
    let reader = OpenOptions::new().read(true).write(true).open(&pipe)?;
    for program in ["while True: print('x' * 10000)", "import os, time\nos.write(1, b'x' * 3000000)\ntime.sleep(60)"] {
        let mut command = kit.codebox().args(["run", "--timeout", "1s", "-c", program]).command();
        let out = File::options().write(true).open(&pipe)?;
        let mut child = command.stdin(Stdio::null()).stdout(out).stderr(Stdio::piped()).spawn()?;
        let mut waited = Duration::ZERO;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            ensure!(waited < Duration::from_secs(30), "the deadline of a second did not end it");
            std::thread::sleep(Duration::from_millis(50));
            waited += Duration::from_millis(50);
        };
        ensure!(status.code() == Some(124), "{program}: {status}");
    }
    // The same for standard error, where codebox itself has something to say at the end.
    let program = "import sys\nwhile True: sys.stderr.write('x' * 1000)";
    let mut command = kit.codebox().args(["run", "--timeout", "1s", "-c", program]).command();
    let errors = File::options().write(true).open(&pipe)?;
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn()?;
    let mut waited = Duration::ZERO;
    while child.try_wait()?.is_none() {
        ensure!(waited < Duration::from_secs(30), "a stalled reader of standard error kept it from ending");
        std::thread::sleep(Duration::from_millis(50));
        waited += Duration::from_millis(50);
    }
    drop(reader);
    Ok(Verdict::Held)
}

/// A tree deeper than there are descriptors is gone after the job, and the next one starts at once.
fn deep(kit: &Kit) -> Result<Verdict> {
    let program = r#"
import os
fd = os.open(".", os.O_RDONLY)
for level in range(2000):
    os.mkdir("d", dir_fd=fd)
    inner = os.open("d", os.O_RDONLY, dir_fd=fd)
    os.close(fd)
    fd = inner
"#;
    let binary = kit.binary().display();
    let home = kit.home().display();
    let shell =
        format!("ulimit -n 256; CODEBOX_HOME='{home}' exec '{binary}' run --json --timeout 20s -c \"$PROGRAM\"");
    let output = std::process::Command::new("sh").args(["-c", &shell]).env("PROGRAM", program).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    // Other trials run beside this one; what a process left behind has no lock and is not empty.
    for entry in fs::read_dir(kit.home().join("cache/scratch"))? {
        let path = entry?.path();
        let names: Vec<_> =
            fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
        let left = !names.is_empty() && !names.iter().any(|name| name == "lock" || name == "lock.new");
        ensure!(!left, "{} was left with {names:?}", path.display());
    }
    Ok(Verdict::Held)
}

/// What a guest says to the host is kept only in part.
fn messages(kit: &Kit) -> Result<Verdict> {
    let program = r#"
import _host, json
for number in range(400):
    for message in [
        {"op": "missing", "what": f"{number}" + "x" * 1000000},
        {"op": "error", "name": "N" * 300000, "value": "v" * 300000, "traceback": "t" * 300000, "line": 1},
        {"op": "seed", "words": list(range(100000)), "len": 400000},
        {"op": "facts", "facts": {"version": "9" * 1000000}},
    ]:
        try:
            _host.call(json.dumps(message).encode())
        except Exception:
            pass
"#;
    let ran = kit.run_json().args(["--memory", "64M", "--timeout", "30s", "-c", program]).run()?;
    let report = sound(&ran)?;
    ensure!(report.outcome() == "exited 0", "{}", report.outcome());
    ensure!(ran.peak_rss < (64 + 160) << 20, "{} MiB were resident", ran.peak_rss >> 20);
    ensure!(ran.stdout.len() < 2 << 20, "the report has {} bytes", ran.stdout.len());
    Ok(Verdict::Held)
}

/// A `codebox.toml` that is a pipe or a device is refused, and not read.
fn project_file(kit: &Kit) -> Result<Verdict> {
    let canaries = Canaries::plant(kit)?;
    let folder = canaries.grant();
    let file = folder.join("codebox.toml");
    let plant_pipe = || plant::tool("mkfifo", &[&file.display().to_string()]);
    let plant_link = || Ok(std::os::unix::fs::symlink("/dev/zero", &file)?);
    let plants: [&dyn Fn() -> Result<()>; 2] = [&plant_pipe, &plant_link];
    for plant in plants {
        plant()?;
        let ran = kit.run_json().folder(&folder).args(["-c", "print(1)"]).deadline(Duration::from_secs(20)).run()?;
        let report = ran.report()?;
        ensure!(report.kind() == "invalid_request" && report.exit_code() == Some(125), "{}", report.json());
        ensure!(report.json().to_string().contains("codebox.toml"), "{}", report.json());
        fs::remove_file(&file)?;
    }
    Ok(Verdict::Held)
}
