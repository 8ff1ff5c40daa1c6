//! S4 and S5: interference with the preparation of a runtime, and unreadable files.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Guest, Input, Kit, Soak, soak};
use sha2::{Digest as _, Sha256};

use crate::Verdict;
use crate::plant::run_tool;
use crate::scenario::{Scenario, scenario};
use crate::tampering::{copy_data, find, with_copied_home};

pub fn trials() -> Vec<Scenario> {
    vec![
        scenario("S4::completes_killed_first_use", completes_killed_first_use),
        scenario("S4::compiles_only_needed_code", compiles_only_needed_code).only(Guest::Python),
        scenario("S4::reruns_with_all_code", reruns_with_all_code).only(Guest::Python),
        scenario("S5::reports_full_disk", reports_full_disk),
        scenario("F4::reports_unreadable_files", reports_unreadable_files),
    ]
}

/// Maximum time for compiling a runtime.
const PREPARATION_TIMEOUT: Duration = Duration::from_secs(900);

fn prepared_entries(home: &Path) -> usize {
    fs::read_dir(home.join("cache/prepared")).map_or(0, Iterator::count)
}

/// Several processes find an unprepared runtime at once and the first is killed: the others complete the preparation.
fn completes_killed_first_use(kit: &Kit, guest: Guest) -> Result<Verdict> {
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

/// A new program of the standard library compiles the interpreter alone. One that needs more code after it has written a
/// file is not run again; in the long form, one without effects is.
fn compiles_only_needed_code(kit: &Kit, guest: Guest) -> Result<Verdict> {
    let folder = kit.folder()?;
    let home = folder.path();
    copy_data(kit, home)?;
    // The start of a host process compiles the rest in the background.
    let run = |program: &str| {
        let run = kit.run_json().home(home).env("CODEBOX_HOST", "off");
        run.args(guest.inline(program)).deadline(PREPARATION_TIMEOUT)
    };
    let first = run("print(1)").run()?.report()?;
    ensure!(first.stdout() == "1\n", "{}", first.json());
    // The threads of the compiler have ended before the process confined itself.
    let second = run("print(1)").run()?.report()?;
    ensure!(first.at("/enforcement/walls") == second.at("/enforcement/walls"), "{}", first.json());
    ensure!(artefacts(home)? == ["code-core.cwasm", "initial.img", "manifest.json", "python.img"]);
    let granted = folder.path().join("granted");
    fs::create_dir(&granted)?;
    let program = "open('/d/x', 'w').close()\nprint(1)\nimport regex";
    let lacking = run(program).grant(&granted, "/d", "rw").run()?;
    let report = lacking.report()?;
    ensure!(lacking.code == Some(134) && *report.at("/outcome/trap") == "missing_code", "{}", report.json());
    ensure!(report.at("/missing/0/hint").to_string().contains("codebox runtime prepare python"), "{}", report.json());
    ensure!(artefacts(home)?.len() == 4, "code was compiled for a program that is not run again");
    if soak() == Soak::Short {
        return Ok(Verdict::Passed);
    }
    // The program has not written to the granted directory.
    let program = "import sys\nprint(sys.stdin.read())\nimport regex\nprint(regex.compile('a+b').findall('aab ab'))";
    let rerun = run(program).grant(&granted, "/d", "rw").input(Input::Bytes(b"input".to_vec()));
    let rerun = rerun.run()?.report()?;
    ensure!(rerun.at("/enforcement/walls") == second.at("/enforcement/walls"), "{}", rerun.json());
    ensure!(rerun.stdout() == "input\n['aab', 'ab']\n", "{}", rerun.json());
    ensure!(*rerun.at("/provenance/reason") == "run again with all code of its runtime", "{}", rerun.json());
    ensure!(artefacts(home)?.iter().any(|name| name == "part-rest.cwasm"), "the code was not compiled");
    Ok(Verdict::Passed)
}

/// A program that needs code that is not compiled runs again with all code: its output appears once, it reads the same
/// input, and the process is confined as usual. The code is compiled by another process meanwhile.
fn reruns_with_all_code(kit: &Kit, guest: Guest) -> Result<Verdict> {
    with_copied_home(kit, |home| {
        let path = find(home, guest, "prepared/manifest.json")?;
        let complete = fs::read(&path)?;
        fs::write(&path, without_code(&complete, "part-rest.cwasm")?)?;
        let rerun = rerun_with_manifest(kit, guest, home, &path, &complete);
        fs::write(&path, &complete)?;
        rerun.map(|()| Verdict::Passed)
    })
}

fn rerun_with_manifest(kit: &Kit, guest: Guest, home: &Path, path: &Path, complete: &[u8]) -> Result<()> {
    let granted = kit.folder()?;
    let program = "print('ready', flush=True)\nprint(input())\nimport regex\nprint(regex.findall('a+b', 'aab'))";
    // The program does not write to the granted directory.
    let command = kit.codebox().home(home).args(["-v", "run", "--isolation", "wasm"]).grant(granted.path(), "/d", "rw");
    let mut command = command.args(guest.inline(program)).command();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut stdout = BufReader::new(child.stdout.take().context("it is piped")?);
    let mut printed = String::new();
    stdout.read_line(&mut printed)?;
    fs::write(path, complete)?;
    child.stdin.take().context("it is piped")?.write_all(b"input\n")?;
    stdout.read_to_string(&mut printed)?;
    let ended = child.wait_with_output()?;
    let notes = String::from_utf8_lossy(&ended.stderr).into_owned();
    ensure!(printed == "ready\ninput\n['aab']\n" && ended.status.success(), "{}: {printed}{notes}", ended.status);
    ensure!(notes.contains("it runs again from its start with all code"), "{notes}");
    let layers: Vec<&str> = notes.lines().filter(|line| line.contains("sandbox layer")).collect();
    ensure!(layers.len() == 2 && layers.iter().all(|line| line.contains(": enforced")), "{notes}");
    Ok(())
}

/// Returns a manifest without one file of code.
fn without_code(manifest: &[u8], file: &str) -> Result<Vec<u8>> {
    let mut document: serde_json::Value = serde_json::from_slice(manifest)?;
    let seals = document["manifest"]["seals"].as_object_mut().context("it has seals")?;
    seals.shift_remove(file).context("the file is listed")?;
    let digest = Sha256::digest(serde_json::to_vec(&document["manifest"])?);
    document["sha256"] = digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();
    Ok(serde_json::to_vec(&document)?)
}

/// Returns the sorted names of the files in the only directory of prepared code and images.
fn artefacts(home: &Path) -> Result<Vec<String>> {
    let prepared = fs::read_dir(home.join("cache/prepared"))?.next().context("nothing is prepared")??;
    let names = fs::read_dir(prepared.path())?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
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
