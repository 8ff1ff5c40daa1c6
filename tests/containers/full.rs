//! O7: a full disk below codebox's directories. The error is one line, existing files stay intact, and runs succeed
//! again once space is free.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Codebox, Report};

use crate::ground::Ground;
use crate::row::{Row, row};

pub fn rows() -> Vec<Row> {
    vec![
        row("O7::cache", |ground| {
            kept_whole(ground, &ground.home().join("cache"), &["busy"], ground.run(), Then::Nothing)
        }),
        row("O7::inodes", |ground| {
            kept_whole(ground, &ground.home().join("cache"), &["busy"], ground.run(), Then::NoNames)
        }),
        row("O7::while_it_writes", while_it_writes),
        row("O7::out", out),
    ]
}

/// Small file system; unmounted when dropped.
struct Tiny {
    place: PathBuf,
}

/// Resource that is used up in a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Space: not one more byte fits.
    Nothing,
    /// Inodes: no more files can be created.
    NoNames,
}

impl Tiny {
    fn mount(place: &Path, size: &str) -> Result<Self> {
        fs::create_dir_all(place)?;
        let options = format!("size={size},nr_inodes=200,mode=700");
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(place).output()?;
        ensure!(done.status.success(), "mount: {}", String::from_utf8_lossy(&done.stderr).trim());
        Ok(Self { place: place.to_owned() })
    }

    fn fill(&self, with: Then) -> Result<()> {
        let folder = self.place.join("fill");
        fs::create_dir(&folder)?;
        let full = match with {
            Then::Nothing => {
                let mut file = File::create(folder.join("0"))?;
                // Single bytes at the end leave no space at all.
                let mut full = std::io::copy(&mut std::io::repeat(1), &mut file).err();
                while file.write_all(&[1]).is_ok() {
                    full = None;
                }
                full.or_else(|| file.write_all(&[1]).err())
            }
            Then::NoNames => (0..).find_map(|number: u32| File::create(folder.join(number.to_string())).err()),
        };
        let full = full.context("it is not full")?;
        ensure!(full.kind() == std::io::ErrorKind::StorageFull, "it is not full: {full}");
        Ok(())
    }

    fn empty(&self) -> Result<()> {
        Ok(fs::remove_dir_all(self.place.join("fill"))?)
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.place).output();
    }
}

fn printing(job: Codebox) -> Codebox {
    job.args(["--lang", "python", "-c", "print('it ran')"])
}

fn well(ground: &Ground, job: Codebox) -> Result<Report> {
    let report = ground.ends("ok", 0, printing(job))?;
    ensure!(report.stdout() == "it ran\n", "it printed {:?}", report.stdout());
    Ok(report)
}

/// A full disk causes a failure with a one-line message, and no container is created.
fn kept_whole(ground: &Ground, place: &Path, kinds: &[&str], job: Codebox, with: Then) -> Result<()> {
    let tiny = Tiny::mount(place, "8m")?;
    well(ground, job.clone())?;
    let before = files(place)?;
    tiny.fill(with)?;
    let ran = printing(job.clone()).run()?;
    ensure!(!ran.hung && ran.signal.is_none(), "it hung or died");
    let report = ran.report()?;
    let told = || format!("{:.700}", report.json().to_string());
    ensure!(kinds.contains(&report.kind()) && ran.code == Some(125), "it ended with {:?} as {}", ran.code, told());
    let line = report.at("/error/message").as_str().unwrap_or_default();
    ensure!(line.contains("no space left") || line.contains("No space left"), "it does not say why: {}", told());
    ensure!(!line.contains('\n'), "it is not one line: {}", told());
    ensure!(ground.containers()?.is_empty(), "a container was made");
    tiny.empty()?;
    ensure!(files(place)? == before, "what was there changed");
    well(ground, job)?;
    Ok(())
}

/// Returns every file below a directory, with its content.
fn files(place: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let (mut found, mut folders) = (Vec::new(), vec![place.to_owned()]);
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
fn while_it_writes(ground: &Ground) -> Result<()> {
    let _tiny = Tiny::mount(&ground.home().join("cache"), "8m")?;
    let fill = "import errno\n\
        try:\n\
        \x20   with open('/work/fill', 'wb', buffering=0) as file:\n\
        \x20       while True: file.write(b'x' * 65536)\n\
        except OSError as error:\n\
        \x20   print(errno.errorcode[error.errno])";
    let report = ground.ends("ok", 0, ground.run().args(["--lang", "python", "-c", fill]))?;
    ensure!(report.stdout() == "ENOSPC\n", "it printed {:?}", report.stdout());
    // The files of the job are removed with it.
    well(ground, ground.run())?;
    Ok(())
}

/// Results that do not fit are named as not copied, and no partial file remains.
fn out(ground: &Ground) -> Result<()> {
    let folder = ground.kit.folder()?;
    let tiny = Tiny::mount(&folder.path().join("tiny"), "1m")?;
    let place = folder.path().join("tiny/out");
    let many = "for n in range(6): open(f'/work/{n}', 'wb').write(bytes([n]) * 300000)\nprint('it ran')";
    let job = || ground.run().arg("--out").arg(&place).args(["--lang", "python", "-c", many]);
    let ran = job().run()?;
    let report = ground.judge(&ran)?;
    ensure!(report.stdout() == "it ran\n", "it printed {:?}", report.stdout());
    let skipped = report.at("/files/skipped").as_array().map_or(0, Vec::len);
    let mut whole = 0;
    for entry in fs::read_dir(&place).into_iter().flatten() {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let number: u8 = name.parse().with_context(|| format!("{name} is no result"))?;
        ensure!(fs::read(entry.path())? == vec![number; 300_000], "{name} is not whole");
        whole += 1;
    }
    ensure!(whole > 0 && whole + skipped == 6, "{whole} came out, {skipped} are told of: {}", report.at("/files"));
    drop(tiny);
    let report = ground.ends("ok", 0, job())?;
    ensure!(report.at("/files/skipped").as_array().is_none_or(Vec::is_empty), "{}", report.at("/files"));
    Ok(())
}
