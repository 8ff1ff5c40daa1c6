use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use cap_std::ambient_authority;
use codebox_core::{CancelToken, FileChanges, GuestPath, HostPath};

use super::*;
use crate::inputs::put_file;
use crate::sys::file_time;

#[cfg(unix)]
mod hostile;
#[cfg(unix)]
mod odd;

/// A job's directory, an output directory of the host, and the input files.
struct Bench {
    home: tempfile::TempDir,
    work: Dir,
    since: SystemTime,
    before: Before,
    owner: Owner,
}

impl Bench {
    fn new() -> Result<Self> {
        let home = tempfile::tempdir()?;
        for name in ["work", "out"] {
            fs::create_dir(home.path().join(name))?;
        }
        let work = Dir::open_ambient_dir(home.path().join("work"), ambient_authority())?;
        Ok(Self { home, work, since: file_time(), before: Before::new(), owner: Owner::Job })
    }

    fn work(&self) -> std::path::PathBuf {
        self.home.path().join("work")
    }

    fn out(&self) -> std::path::PathBuf {
        self.home.path().join("out")
    }

    fn put(&mut self, path: &str, content: &[u8]) -> Result<()> {
        let parts: Vec<&str> = path.split('/').collect();
        let put = put_file(&self.work, &parts, content)?;
        self.before.insert(format!("/work/{path}"), put);
        Ok(())
    }

    fn collect(&self) -> Result<FileChanges> {
        self.collect_within(None)
    }

    fn collect_within(&self, most: Option<u64>) -> Result<FileChanges> {
        let at = GuestPath::work();
        let left = Left { dir: &self.work, at: &at, owner: self.owner, since: self.since, before: &self.before };
        let out = HostPath::native(&self.out())?;
        Ok(collect(&left, Some(&out), Budget::new(most, CancelToken::new())))
    }
}

fn names(files: &[codebox_core::OutFile]) -> Vec<&str> {
    files.iter().map(|file| file.guest.as_str()).collect()
}

#[cfg(unix)]
fn reason<'a>(found: &'a FileChanges, name: &str) -> Result<&'a str> {
    let named = found.skipped.iter().find(|skipped| skipped.name == name.as_bytes());
    Ok(named.with_context(|| format!("{name} is not named: {:?}", skipped(found)))?.reason.as_str())
}

fn skipped(found: &FileChanges) -> Vec<(String, &str)> {
    found.skipped.iter().map(|file| (file.name.escape_ascii().to_string(), file.reason.as_str())).collect()
}

fn entries(dir: &Path) -> Result<Vec<String>> {
    let mut names = fs::read_dir(dir)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

#[test]
fn what_was_put_in_and_left_alone_is_no_change() -> Result<()> {
    let mut bench = Bench::new()?;
    bench.put("in/same.txt", b"same")?;
    bench.put("in/other.txt", b"before")?;
    fs::write(bench.work().join("in/other.txt"), "after")?;
    fs::write(bench.work().join("in/new.bin"), [0, 255, b'\n'])?;
    let found = bench.collect()?;
    assert_eq!(names(&found.created), ["/work/in/new.bin"]);
    assert_eq!(names(&found.modified), ["/work/in/other.txt"]);
    assert_eq!(skipped(&found), []);
    assert_eq!(fs::read(bench.out().join("in/new.bin"))?, [0, 255, b'\n']);
    assert_eq!(fs::read(bench.out().join("in/other.txt"))?, b"after");
    assert_eq!(entries(&bench.out().join("in"))?, ["new.bin", "other.txt"], "nothing else, and nothing half written");
    let host = found.created[0].host.as_ref().context("it is on the host")?;
    assert_eq!(host.to_path_buf(), bench.out().join("in/new.bin"));
    Ok(())
}

#[test]
fn what_is_over_the_budget_stays_inside() -> Result<()> {
    let bench = Bench::new()?;
    fs::write(bench.work().join("a"), [1; 60])?;
    fs::write(bench.work().join("b"), [2; 60])?;
    let found = bench.collect_within(Some(100))?;
    assert_eq!(names(&found.created), ["/work/a", "/work/b"]);
    assert_eq!(entries(&bench.out())?.len(), 1);
    assert_eq!(found.skipped.len(), 1);
    assert!(found.skipped[0].reason.contains("limit of 100 bytes"), "{}", found.skipped[0].reason);
    Ok(())
}

#[test]
fn an_out_directory_that_is_not_there_is_named() -> Result<()> {
    let bench = Bench::new()?;
    fs::remove_dir(bench.out())?;
    let found = bench.collect()?;
    assert!(found.skipped[0].reason.starts_with("cannot be opened"), "{:?}", skipped(&found));
    Ok(())
}
