//! O7: a full disk below codebox's directories. The error is one line, existing files stay intact, and runs succeed
//! again once space is free.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Codebox, Report};

use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

pub fn rows() -> Vec<Row> {
    vec![
        row("O7::cache", |test_env| {
            fails_cleanly_when_full(
                test_env,
                &test_env.home().join("cache"),
                &["busy"],
                test_env.run(),
                ExhaustedResource::Space,
            )
        }),
        row("O7::inodes", |test_env| {
            fails_cleanly_when_full(
                test_env,
                &test_env.home().join("cache"),
                &["busy"],
                test_env.run(),
                ExhaustedResource::Inodes,
            )
        }),
        row("O7::job_fills_disk", job_fills_disk),
        row("O7::out", out),
    ]
}

/// Small file system; unmounted when dropped.
struct SmallFileSystem {
    directory: PathBuf,
}

/// Resource that is used up in a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExhaustedResource {
    /// Space: not one more byte fits.
    Space,
    /// Inodes: no more files can be created.
    Inodes,
}

impl SmallFileSystem {
    fn mount(directory: &Path, size: &str) -> Result<Self> {
        fs::create_dir_all(directory)?;
        let options = format!("size={size},nr_inodes=200,mode=700");
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(directory).output()?;
        ensure!(done.status.success(), "mount: {}", String::from_utf8_lossy(&done.stderr).trim());
        Ok(Self { directory: directory.to_owned() })
    }

    fn fill(&self, exhausted: ExhaustedResource) -> Result<()> {
        let folder = self.directory.join("fill");
        fs::create_dir(&folder)?;
        let full = match exhausted {
            ExhaustedResource::Space => {
                let mut file = File::create(folder.join("0"))?;
                // Single bytes at the end leave no space at all.
                let mut full = std::io::copy(&mut std::io::repeat(1), &mut file).err();
                while file.write_all(&[1]).is_ok() {
                    full = None;
                }
                full.or_else(|| file.write_all(&[1]).err())
            }
            ExhaustedResource::Inodes => {
                (0..).find_map(|number: u32| File::create(folder.join(number.to_string())).err())
            }
        };
        let full = full.context("the disk is not full")?;
        ensure!(full.kind() == std::io::ErrorKind::StorageFull, "the disk is not full: {full}");
        Ok(())
    }

    fn empty(&self) -> Result<()> {
        Ok(fs::remove_dir_all(self.directory.join("fill"))?)
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.directory).output();
    }
}

fn print_job(job: Codebox) -> Codebox {
    job.args(["--lang", "python", "-c", "print('it ran')"])
}

fn check_run_succeeds(test_env: &TestEnvironment, job: Codebox) -> Result<Report> {
    let report = test_env.run_expecting("ok", 0, print_job(job))?;
    ensure!(report.stdout() == "it ran\n", "stdout is {:?}", report.stdout());
    Ok(report)
}

/// A full disk causes a failure with a one-line message, and no container is created.
fn fails_cleanly_when_full(
    test_env: &TestEnvironment,
    directory: &Path,
    kinds: &[&str],
    job: Codebox,
    exhausted: ExhaustedResource,
) -> Result<()> {
    let file_system = SmallFileSystem::mount(directory, "8m")?;
    check_run_succeeds(test_env, job.clone())?;
    let before = files(directory)?;
    file_system.fill(exhausted)?;
    let result = print_job(job.clone()).run()?;
    ensure!(!result.timed_out && result.signal.is_none(), "timed out or ended by a signal");
    let report = result.report()?;
    let summary = || format!("{:.700}", report.json().to_string());
    ensure!(
        kinds.contains(&report.kind()) && result.code == Some(125),
        "exit status is {:?}, report is {}",
        result.code,
        summary()
    );
    let line = report.at("/error/message").as_str().unwrap_or_default();
    ensure!(
        line.contains("no space left") || line.contains("No space left"),
        "the message has no cause: {}",
        summary()
    );
    ensure!(!line.contains('\n'), "message is not one line: {}", summary());
    ensure!(test_env.containers()?.is_empty(), "a container was created");
    file_system.empty()?;
    ensure!(files(directory)? == before, "existing files changed");
    check_run_succeeds(test_env, job)?;
    Ok(())
}

/// Returns every file below a directory, with its content.
fn files(directory: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let (mut found, mut folders) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((path.clone(), fs::read(&path)?));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// A job that fills the disk gets `ENOSPC` like any program, and its report is complete.
fn job_fills_disk(test_env: &TestEnvironment) -> Result<()> {
    let _file_system = SmallFileSystem::mount(&test_env.home().join("cache"), "8m")?;
    let fill = "import errno\n\
        try:\n\
        \x20   with open('/work/fill', 'wb', buffering=0) as file:\n\
        \x20       while True: file.write(b'x' * 65536)\n\
        except OSError as error:\n\
        \x20   print(errno.errorcode[error.errno])";
    let report = test_env.run_expecting("ok", 0, test_env.run().args(["--lang", "python", "-c", fill]))?;
    ensure!(report.stdout() == "ENOSPC\n", "stdout is {:?}", report.stdout());
    // The files of the job are removed with it.
    check_run_succeeds(test_env, test_env.run())?;
    Ok(())
}

/// Results that do not fit are named as not copied, and no partial file remains.
fn out(test_env: &TestEnvironment) -> Result<()> {
    let folder = test_env.kit.folder()?;
    let file_system = SmallFileSystem::mount(&folder.path().join("tiny"), "1m")?;
    let directory = folder.path().join("tiny/out");
    let write_program = "for n in range(6): open(f'/work/{n}', 'wb').write(bytes([n]) * 300000)\nprint('it ran')";
    let job = || test_env.run().arg("--out").arg(&directory).args(["--lang", "python", "-c", write_program]);
    let result = job().run()?;
    let report = test_env.check_run(&result)?;
    ensure!(report.stdout() == "it ran\n", "stdout is {:?}", report.stdout());
    let skipped = report.at("/files/skipped").as_array().map_or(0, Vec::len);
    let mut copied = 0;
    for entry in fs::read_dir(&directory).into_iter().flatten() {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let number: u8 = name.parse().with_context(|| format!("{name} is not a result"))?;
        ensure!(fs::read(entry.path())? == vec![number; 300_000], "{name} is incomplete");
        copied += 1;
    }
    ensure!(
        copied > 0 && copied + skipped == 6,
        "{copied} were copied out, {skipped} are reported: {}",
        report.at("/files")
    );
    drop(file_system);
    let report = test_env.run_expecting("ok", 0, job())?;
    ensure!(report.at("/files/skipped").as_array().is_none_or(Vec::is_empty), "{}", report.at("/files"));
    Ok(())
}
