use std::fs;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result};
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use codebox_core::{CancelToken, FileChanges, GuestPath, HostPath, OutGuard};

use super::*;
use crate::inputs::{InputManifest, write_input_file};
use crate::sys::file_time;
use crate::work_dir::Owner;

#[cfg(unix)]
mod hostile;
#[cfg(unix)]
mod odd;

/// A job's directory, an output directory of the host, and the input files.
struct Fixture {
    home: tempfile::TempDir,
    work: Dir,
    since: SystemTime,
    before: InputManifest,
    owner: Owner,
}

impl Fixture {
    fn new() -> Result<Self> {
        let home = tempfile::tempdir()?;
        for name in ["work", "out"] {
            fs::create_dir(home.path().join(name))?;
        }
        let work = Dir::open_ambient_dir(home.path().join("work"), ambient_authority())?;
        Ok(Self { home, work, since: file_time(), before: InputManifest::new(), owner: Owner::Job })
    }

    fn work(&self) -> std::path::PathBuf {
        self.home.path().join("work")
    }

    fn out(&self) -> std::path::PathBuf {
        self.home.path().join("out")
    }

    fn put(&mut self, path: &str, content: &[u8]) -> Result<()> {
        let parts: Vec<&str> = path.split('/').collect();
        let put = write_input_file(&self.work, &parts, content, false)?;
        self.before.insert(format!("/work/{path}"), put);
        Ok(())
    }

    fn collect(&self) -> Result<FileChanges> {
        self.collect_with_budget(None)
    }

    fn collect_with_budget(&self, max_bytes: Option<u64>) -> Result<FileChanges> {
        let at = GuestPath::work();
        let work_dir = JobWorkDir {
            dir: &self.work,
            at: &at,
            owner: self.owner,
            since: self.since,
            before: &self.before,
            guard: OutGuard::None,
        };
        let out = HostPath::native(&self.out())?;
        Ok(collect(&work_dir, Some(&out), Budget::new(max_bytes, CancelToken::new())))
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
fn unchanged_inputs_are_no_changes() -> Result<()> {
    let mut fixture = Fixture::new()?;
    fixture.put("in/same.txt", b"same")?;
    fixture.put("in/other.txt", b"before")?;
    fs::write(fixture.work().join("in/other.txt"), "after")?;
    fs::write(fixture.work().join("in/new.bin"), [0, 255, b'\n'])?;
    let found = fixture.collect()?;
    assert_eq!(names(&found.created), ["/work/in/new.bin"]);
    assert_eq!(names(&found.modified), ["/work/in/other.txt"]);
    assert_eq!(skipped(&found), []);
    assert_eq!(fs::read(fixture.out().join("in/new.bin"))?, [0, 255, b'\n']);
    assert_eq!(fs::read(fixture.out().join("in/other.txt"))?, b"after");
    assert_eq!(entries(&fixture.out().join("in"))?, ["new.bin", "other.txt"], "nothing else, and nothing half written");
    let host = found.created[0].host.as_ref().context("it is on the host")?;
    assert_eq!(host.to_path_buf(), fixture.out().join("in/new.bin"));
    Ok(())
}

#[test]
fn files_over_budget_are_not_copied() -> Result<()> {
    let fixture = Fixture::new()?;
    fs::write(fixture.work().join("a"), [1; 60])?;
    fs::write(fixture.work().join("b"), [2; 60])?;
    let found = fixture.collect_with_budget(Some(100))?;
    assert_eq!(names(&found.created), ["/work/a", "/work/b"]);
    assert_eq!(entries(&fixture.out())?.len(), 1);
    assert_eq!(found.skipped.len(), 1);
    assert!(found.skipped[0].reason.contains("limit of 100 bytes"), "{}", found.skipped[0].reason);
    Ok(())
}

#[test]
fn reports_missing_output_directory() -> Result<()> {
    let fixture = Fixture::new()?;
    fs::remove_dir(fixture.out())?;
    let found = fixture.collect()?;
    assert!(found.skipped[0].reason.starts_with("cannot be opened"), "{:?}", skipped(&found));
    Ok(())
}
