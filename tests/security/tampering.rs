//! S3: modified files of the store, which are refused or recreated, and never run.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Guest, Kit, Report};
use tempfile::TempDir;

use crate::Verdict;
use crate::plant::run_tool;
use crate::scenario::{Scenario, scenario};

pub fn trials() -> Vec<Scenario> {
    vec![
        scenario("S3::code_flipped", |kit, guest| check_tampering(kit, guest, "code", flip)),
        scenario("S3::code_cut", |kit, guest| check_tampering(kit, guest, "code", cut)),
        scenario("S3::code_empty", |kit, guest| check_tampering(kit, guest, "code", empty)),
        scenario("S3::code_foreign", |kit, guest| check_tampering(kit, guest, "code", replace_by_foreign_program)),
        scenario("S3::code_is_a_link", |kit, guest| check_tampering(kit, guest, "code", replace_by_link)),
        scenario("S3::code_is_world_writable", |kit, guest| check_tampering(kit, guest, "code", make_world_writable)),
        scenario("S3::code_has_other_owner", |kit, guest| check_tampering(kit, guest, "code", change_owner)),
        scenario("S3::part_flipped", |kit, guest| check_tampering(kit, guest, "part-rest.cwasm", flip))
            .only(Guest::Python),
        scenario("S3::part_cut", |kit, guest| check_tampering(kit, guest, "part-rest.cwasm", cut)).only(Guest::Python),
        scenario("S3::part_is_a_link", |kit, guest| check_tampering(kit, guest, "part-rest.cwasm", replace_by_link))
            .only(Guest::Python),
        scenario("S3::image_flipped", |kit, guest| check_tampering(kit, guest, "image", flip)),
        scenario("S3::image_cut", |kit, guest| check_tampering(kit, guest, "image", cut)),
        scenario("S3::manifest_flipped", |kit, guest| check_tampering(kit, guest, "prepared/manifest.json", flip)),
        scenario("S3::manifest_lists_another_import", |kit, guest| {
            check_tampering(kit, guest, "prepared/manifest.json", change_import)
        })
        .only(Guest::Python),
        scenario("S3::manifest_empty", |kit, guest| check_tampering(kit, guest, "runtime/manifest.json", empty)),
        scenario("S3::library_flipped", |kit, guest| check_tampering(kit, guest, "python315.zip", flip))
            .only(Guest::Python),
        scenario("S3::library_cut", |kit, guest| check_tampering(kit, guest, "python315.zip", cut)).only(Guest::Python),
        scenario("S3::directory_is_world_writable", |kit, guest| {
            check_tampering(kit, guest, "prepared", make_folder_world_writable)
        }),
    ]
}

/// Copy of the home, or the reason why it could not be made; empty before the first use.
static COPY: Mutex<Option<Result<TempDir, String>>> = Mutex::new(None);

/// Calls `work` with a copy of the home, which is made once and used by one trial at a time.
pub fn with_copied_home(kit: &Kit, work: impl FnOnce(&Path) -> Result<Verdict>) -> Result<Verdict> {
    let mut copy = COPY.lock().unwrap_or_else(PoisonError::into_inner);
    match copy.get_or_insert_with(|| copied(kit).map_err(|error| format!("{error:#}"))) {
        Ok(home) => work(home.path()),
        Err(reason) => Err(anyhow::anyhow!("no copy of the home: {reason}")),
    }
}

/// Removes the copy, because statics are not dropped at process exit.
pub fn remove_copy() {
    drop(COPY.lock().unwrap_or_else(PoisonError::into_inner).take());
}

fn copied(kit: &Kit) -> Result<TempDir> {
    let home = kit.folder()?;
    fs::create_dir(home.path().join("cache"))?;
    copy_data(kit, home.path())?;
    copy_part(kit, home.path(), Path::new("cache/prepared"))?;
    // A copied file has another identity, so its digest is checked once and recorded.
    for guest in Guest::ALL {
        let result = kit.codebox().home(home.path()).arg("run").args(guest.printing(1)).run()?;
        ensure!(result.code == Some(0), "a copied home is not accepted: {}", result.stderr_text());
    }
    Ok(home)
}

/// Copies the installed data, except for the records of running jobs, which change while other trials run.
pub fn copy_data(kit: &Kit, home: &Path) -> Result<()> {
    fs::create_dir(home.join("data"))?;
    for entry in fs::read_dir(kit.home().join("data"))? {
        let name = entry?.file_name();
        if name != "jobs" {
            copy_part(kit, home, &Path::new("data").join(name))?;
        }
    }
    Ok(())
}

fn copy_part(kit: &Kit, home: &Path, part: &Path) -> Result<()> {
    let [from, to] = [kit.home(), home].map(|home| home.join(part).display().to_string());
    run_tool("cp", &["-a", "--reflink=auto", &from, &to])
}

/// Changes one file, runs a job, and restores the file.
fn check_tampering(kit: &Kit, guest: Guest, what: &str, change: fn(&Path) -> Result<()>) -> Result<Verdict> {
    with_copied_home(kit, |home| {
        let path = find(home, guest, what)?;
        // A damaged part of the code matters only to a program that needs it.
        let program = match what.starts_with("part-") {
            true => "import regex; print(6 * 7)",
            false => guest.choose("import json; print(6 * 7)", "console.log(JSON.stringify(6 * 7))"),
        };
        let backup = home.join("kept");
        run_tool("cp", &["-a", &path.display().to_string(), &backup.display().to_string()])?;
        // Files that are found damaged are no longer listed.
        let (list, listed) = (find(home, guest, "prepared/manifest.json")?, home.join("kept-manifest"));
        fs::copy(&list, &listed)?;
        let verdict = change(&path).and_then(|()| check_refused_or_rebuilt(kit, guest, home, program));
        // The original replaces the current file, including a rebuilt one.
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        fs::rename(&backup, &path)?;
        fs::rename(&listed, &list)?;
        verdict?;
        let rerun = kit.codebox().home(home).arg("run").args(guest.printing(1)).run()?;
        ensure!(rerun.stdout == b"1\n", "does not run after the repair: {}", rerun.stderr_text());
        Ok(Verdict::Passed)
    })
}

/// Accepts a refusal in one line, or files that are recreated.
///
/// Recreating them takes minutes, so a process that starts to do so is stopped: the modified file was not used.
fn check_refused_or_rebuilt(kit: &Kit, guest: Guest, home: &Path, program: &str) -> Result<()> {
    let mut command = kit.run_json().home(home).args(guest.inline(program)).command();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut messages = String::new();
    for line in BufReader::new(child.stderr.take().context("no pipe")?).lines() {
        let line = line?;
        if line.contains("compiling") || line.contains("for the image") {
            child.kill()?;
            child.wait()?;
            return Ok(());
        }
        messages.push_str(&line);
        messages.push('\n');
    }
    let output = child.wait_with_output()?;
    ensure!(output.status.code() == Some(125), "status is {}, expected 125: {messages}", output.status);
    ensure!(!messages.contains("panicked"), "panicked: {messages}");
    let report = Report::new(serde_json::from_slice(&output.stdout)?);
    ensure!(matches!(report.kind(), "image_error" | "engine_unavailable"), "{}", report.json());
    let message = report.at("/error/message").as_str().unwrap_or_default();
    ensure!(!message.is_empty() && !message.contains('\n'), "the message is {message:?}");
    ensure!(!report.at("/error/hint").is_null(), "the message has no fix: {}", report.json());
    Ok(())
}

/// Returns the path of an artefact of a runtime.
pub fn find(home: &Path, guest: Guest, what: &str) -> Result<PathBuf> {
    let latest_entry = |folder: PathBuf| {
        let own = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(&format!("{}-", guest.name()));
        let entries = fs::read_dir(&folder)?.flatten().filter(own);
        let entry = entries.max_by_key(|entry| entry.metadata().and_then(|m| m.modified()).ok());
        Ok::<_, anyhow::Error>(entry.with_context(|| format!("{} is empty", folder.display()))?.path())
    };
    let (prepared, runtime) = (latest_entry(home.join("cache/prepared"))?, latest_entry(home.join("data/runtimes"))?);
    Ok(match what {
        "prepared" => prepared,
        "prepared/manifest.json" => prepared.join("manifest.json"),
        "runtime/manifest.json" => runtime.join("manifest.json"),
        "code" => prepared.join(guest.choose("code-core.cwasm", "code.cwasm")),
        "image" => prepared.join(format!("{}.img", guest.name())),
        "python315.zip" => runtime.join("lib/python315.zip"),
        artefact => prepared.join(artefact),
    })
}

fn rewrite(path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
    let mut bytes = fs::read(path)?;
    change(&mut bytes);
    let permissions = fs::metadata(path)?.permissions();
    fs::remove_file(path)?;
    fs::write(path, bytes)?;
    Ok(fs::set_permissions(path, permissions)?)
}

fn flip(path: &Path) -> Result<()> {
    rewrite(path, |bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x40;
    })
}

/// Changes a list to another well-formed one.
fn change_import(path: &Path) -> Result<()> {
    rewrite(path, |bytes| {
        let text = String::from_utf8_lossy(bytes).replace("\"zoneinfo\"", "\"zoneinfos\"");
        *bytes = text.into_bytes();
    })
}

fn cut(path: &Path) -> Result<()> {
    rewrite(path, |bytes| bytes.truncate(bytes.len() / 2))
}

/// Replaces the file by a program of this machine, which is an ELF file like the code image.
fn replace_by_foreign_program(path: &Path) -> Result<()> {
    let program = fs::read("/bin/true")?;
    rewrite(path, |bytes| *bytes = program)
}

fn empty(path: &Path) -> Result<()> {
    Ok(fs::write(path, "")?)
}

fn replace_by_link(path: &Path) -> Result<()> {
    let aside = path.with_extension("aside");
    fs::copy(path, &aside)?;
    fs::remove_file(path)?;
    Ok(std::os::unix::fs::symlink(&aside, path)?)
}

fn make_world_writable(path: &Path) -> Result<()> {
    run_tool("chmod", &["a+w", &path.display().to_string()])
}

fn change_owner(path: &Path) -> Result<()> {
    run_tool("chown", &["12345", &path.display().to_string()])
}

fn make_folder_world_writable(path: &Path) -> Result<()> {
    run_tool("chmod", &["0777", &path.display().to_string()])
}
