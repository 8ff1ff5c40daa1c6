//! C10, P3 and P4: remains of a job that are hostile to the host, in its own directory and in a granted one.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Result, bail, ensure};
use codebox_testkit::{Codebox, Report};

use crate::row::{Row, row};
use crate::test_env::{TestEnvironment, program};

/// Disk limit of these jobs in bytes.
const DISK: u64 = 32 << 20;

pub fn rows() -> Vec<Row> {
    vec![
        row("C10::private_directory", private),
        row("C10::deep_tree", deep),
        row("C10::granted_directory", granted),
        row("C10::granted_as_work", granted_as_work),
        row("P3::outputs", outputs),
        row("P4::planted_input", planted_input),
    ]
}

fn run_leaving_files(test_env: &TestEnvironment, job: Codebox, target: &str, deep: u32) -> Result<Report> {
    let job = job.args(["--max-disk", "32M", "--timeout", "100s"]).arg(program("c10_left.py"));
    let job = job.args([target.to_owned(), deep.to_string(), test_env.canaries.file().display().to_string()]);
    let report = test_env.run_expecting("ok", 0, job)?;
    ensure!(report.stdout() == "done\n", "stdout is {:?}", report.stdout());
    Ok(report)
}

/// The report names files that cannot be copied, and all of them are removed afterwards, however deep.
fn private(test_env: &TestEnvironment) -> Result<()> {
    let out = test_env.kit.folder()?;
    let target = out.path().join("out");
    let report = run_leaving_files(test_env, test_env.run().args(["--out"]).arg(&target), "/work", 3000)?;
    check_report_names_files(&report)?;
    check_output_is_harmless(&target, test_env)
}

/// For a tree deeper than the maximum depth, the report names the place where the listing ends; the whole tree is
/// removed afterwards.
fn deep(test_env: &TestEnvironment) -> Result<()> {
    let out = test_env.kit.folder()?;
    let program = "import os\nfor level in range(10000):\n    if level in (60, 70): open('file', 'w').write('x')\n    os.mkdir('d'); os.chdir('d')";
    let job =
        test_env.run().args(["--max-files", "unlimited", "--timeout", "100s", "--out"]).arg(out.path().join("out"));
    let report = test_env.run_expecting("ok", 0, job.args(["--lang", "python", "-c", program]))?;
    let below = |levels: usize| format!("/work{}", "/d".repeat(levels));
    ensure!(
        report.files("created") == [format!("{}/file", below(60))],
        "unexpected entries {:?}",
        report.files("created")
    );
    let skipped = report.at("/files/skipped").as_array().cloned().unwrap_or_default();
    let [end] = skipped.as_slice() else { anyhow::bail!("skipped entries are {skipped:?}") };
    let has_reason = end["reason"].as_str().is_some_and(|why| why.contains("its content is not listed"));
    ensure!(end["name"] == below(65) && has_reason, "named path is {end}");
    ensure!(
        fs::read(out.path().join("out").join("d/".repeat(60)).join("file"))? == b"x",
        "the file was not copied out"
    );
    Ok(())
}

/// A granted directory belongs to the user: remains of the job stay there but have no privileges on the host.
fn granted(test_env: &TestEnvironment) -> Result<()> {
    run_leaving_files(test_env, test_env.run_granted(), "/data", 100)?;
    let result = check_no_privileged_files(&test_env.canaries.grant());
    remove_entries(&test_env.canaries.grant())?;
    result
}

fn granted_as_work(test_env: &TestEnvironment) -> Result<()> {
    let job = test_env.run().grant(&test_env.canaries.grant(), "/work", "rw");
    let report = run_leaving_files(test_env, job, "/work", 100)?;
    let result = check_report_names_files(&report).and_then(|()| check_no_privileged_files(&test_env.canaries.grant()));
    remove_entries(&test_env.canaries.grant())?;
    result
}

/// Names that lead to a secret of the host are reported and never followed.
fn outputs(test_env: &TestEnvironment) -> Result<()> {
    let out = test_env.kit.folder()?;
    let target = out.path().join("out");
    let report = run_leaving_files(test_env, test_env.run().args(["--out"]).arg(&target), "/work", 1)?;
    for name in ["link", "folder-link", "chain", "root", "environment", "up", "loop"] {
        let Some(file) = report.file(&format!("/work/{name}")) else { bail!("{name} is not reported") };
        ensure!(file["kind"] == "symlink" && file["host_path"].is_null(), "{name}: {file}");
        ensure!(fs::symlink_metadata(target.join(name)).is_err(), "{name} was copied out");
    }
    check_output_is_harmless(&target, test_env)
}

/// A link that a job leaves at the path of the next job's program has no effect and is not written through.
fn planted_input(test_env: &TestEnvironment) -> Result<()> {
    let grant = test_env.canaries.grant();
    let plant = "import os, sys\nos.symlink(sys.argv[1], 'in.py')\nos.symlink(sys.argv[1], '.codebox')";
    let first = test_env.run().grant(&grant, "/work", "rw").args(["--lang", "python", "-c", plant]);
    test_env.run_expecting("ok", 0, first.arg(test_env.canaries.file()))?;
    let folder = test_env.kit.folder()?;
    let next = folder.path().join("in.py");
    fs::write(&next, "print('mine')")?;
    let report = test_env.run_expecting("ok", 0, test_env.run().grant(&grant, "/work", "rw").arg(&next))?;
    ensure!(report.stdout() == "mine\n", "stdout is {:?}", report.stdout());
    ensure!(fs::symlink_metadata(grant.join("in.py"))?.is_symlink(), "the link was replaced");
    Ok(())
}

/// The report names every special file, as skipped or with its kind.
fn check_report_names_files(report: &Report) -> Result<()> {
    let skipped = report.at("/files/skipped").as_array().cloned().unwrap_or_default();
    let is_named = |name: &str| skipped.iter().any(|one| one["name"].as_str().is_some_and(|is| is.ends_with(name)));
    // A set-user-id bit cannot be set; `check_output_is_harmless` and `check_no_privileged_files` check for it.
    for name in ["/fifo", "/socket"] {
        ensure!(is_named(name), "{name} is not reported: {skipped:?}");
    }
    // Names that are not UTF-8 are reported in base64.
    ensure!(skipped.iter().any(|one| one["name_base64"].is_string()), "the name that is not UTF-8 is not reported");
    ensure!(skipped.len() < 1000, "{} are reported", skipped.len());
    Ok(())
}

/// Only regular files and folders are copied out: without setuid and setgid bits, owned by the caller, and within the
/// disk limit.
fn check_output_is_harmless(out: &Path, test_env: &TestEnvironment) -> Result<()> {
    let (caller, mut total_size) = (fs::metadata(test_env.home())?.uid(), 0);
    let mut folders = vec![out.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let (path, meta) = {
                let entry = entry?;
                (entry.path(), entry.metadata()?)
            };
            ensure!(meta.is_file() || meta.is_dir(), "{} was copied out", path.display());
            ensure!(meta.mode() & 0o7000 == 0, "{} has the mode {:o}", path.display(), meta.mode());
            ensure!(meta.uid() == caller, "{} belongs to {}", path.display(), meta.uid());
            if meta.is_dir() {
                folders.push(path);
                continue;
            }
            ensure!(meta.nlink() == 1, "{} has another name", path.display());
            total_size += meta.len();
            let text = fs::read(&path)?;
            let secret = test_env.canaries.secret().as_bytes();
            ensure!(!text.windows(secret.len()).any(|part| part == secret), "{} holds the secret", path.display());
        }
    }
    ensure!(out.join("plain.txt").exists(), "the plain file was not copied out");
    ensure!(total_size <= 2 * DISK, "{total_size} bytes were copied out");
    Ok(())
}

/// Checks that the directory contains no set-user-id files of others and no devices.
fn check_no_privileged_files(dir: &Path) -> Result<()> {
    use std::os::unix::fs::FileTypeExt as _;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        let (mode, kind) = (meta.mode(), meta.file_type());
        ensure!(!kind.is_block_device() && !kind.is_char_device(), "{:?} is a device", entry.file_name());
        let runs_as_other = meta.is_file() && mode & 0o6000 != 0;
        ensure!(!runs_as_other, "{:?} of user {} has the mode {mode:o}", entry.file_name(), meta.uid());
    }
    Ok(())
}

/// Removes entries that would make the grant's surroundings unreadable for the next check.
fn remove_entries(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if fs::symlink_metadata(&path)?.is_dir() { fs::remove_dir_all(&path)? } else { fs::remove_file(&path)? }
    }
    Ok(())
}
