//! Unusual names, times, depths and counts, and deleted files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::time::Duration;

use rustix::fs::{CWD, Timespec, Timestamps, utimensat};

use super::*;

#[test]
fn reports_deleted_inputs() -> Result<()> {
    let mut fixture = Fixture::new()?;
    for name in ["gone", "sub/gone", "kept", "folder", "linked/file"] {
        fixture.put(name, b"put in")?;
    }
    let work = fixture.work();
    fs::remove_file(work.join("gone"))?;
    fs::remove_dir_all(work.join("sub"))?;
    fs::remove_file(work.join("folder"))?;
    fs::create_dir(work.join("folder"))?;
    // The target of the link is not an input file.
    fs::rename(work.join("linked"), work.join("moved"))?;
    symlink("moved", work.join("linked"))?;
    let found = fixture.collect()?;
    assert_eq!(names(&found.deleted), ["/work/folder", "/work/gone", "/work/linked/file", "/work/sub/gone"]);
    assert_eq!(found.deleted[0].size, 6);
    Ok(())
}

#[test]
fn reports_hostile_names_times_depths_and_counts() -> Result<()> {
    let fixture = Fixture::new()?;
    let work = fixture.work();
    fs::write(work.join(OsStr::from_bytes(b"not\xfftext")), "x")?;
    fs::write(work.join("line\nbreak\x1b[2J"), "x")?;
    for (name, seconds) in [("year-1938", -1_000_000_000), ("year-2446", 15_032_385_535)] {
        fs::write(work.join(name), "x")?;
        let at = Timespec { tv_sec: seconds, tv_nsec: 5 };
        utimensat(
            CWD,
            work.join(name),
            &Timestamps { last_access: at, last_modification: at },
            rustix::fs::AtFlags::empty(),
        )?;
    }
    let mut deep = Dir::open_ambient_dir(&work, ambient_authority())?;
    for _ in 0..3000 {
        deep.create_dir("deep")?;
        deep = deep.open_dir("deep")?;
    }
    deep.write("file", "x")?;
    fs::create_dir(work.join("many"))?;
    for number in 0..20_000 {
        fs::File::create(work.join(format!("many/{number:05}")))?;
    }
    let found = fixture.collect()?;
    assert_eq!(reason(&found, "/work/not\u{fffd}text").err().map(|_| ()), Some(()));
    let hostile = found.skipped.iter().find(|skipped| skipped.name == b"/work/not\xfftext").context("it is named")?;
    assert_eq!(hostile.reason, "its name is not a valid guest path");
    let deepest = found
        .skipped
        .iter()
        .find(|skipped| skipped.reason.ends_with("its content is not listed"))
        .context("it is named")?;
    assert_eq!(deepest.name.iter().filter(|byte| **byte == b'/').count(), 66);
    // The list is filled up to its bound, and further files are counted.
    assert_eq!(found.created.len(), 10_000);
    let others = ["line\nbreak\x1b[2J", "year-1938", "year-2446"];
    let named = |name: &&str| found.skipped.iter().any(|skipped| skipped.name == format!("/work/{name}").as_bytes());
    let refused = others.iter().filter(|name| named(name)).count();
    assert_eq!(found.dropped, 10_000 + (others.len() - refused) as u64);
    Ok(())
}

#[test]
fn copies_files_with_unusual_times_and_names() -> Result<()> {
    let fixture = Fixture::new()?;
    let work = fixture.work();
    for (name, seconds) in [("year-1938", -1_000_000_000), ("year-2446", 15_032_385_535)] {
        fs::write(work.join(name), name)?;
        let at = Timespec { tv_sec: seconds, tv_nsec: 5 };
        utimensat(
            CWD,
            work.join(name),
            &Timestamps { last_access: at, last_modification: at },
            rustix::fs::AtFlags::empty(),
        )?;
    }
    let longest = "n".repeat(255);
    fs::write(work.join(&longest), "long")?;
    let found = fixture.collect()?;
    assert_eq!(skipped(&found), []);
    assert_eq!(entries(&fixture.out())?, [longest.as_str(), "year-1938", "year-2446"]);
    assert_eq!(fs::read(fixture.out().join("year-1938"))?, b"year-1938");
    let fresh = fs::metadata(fixture.out().join("year-1938"))?.modified()?;
    assert!(fresh.elapsed()? < Duration::from_secs(1 << 30), "times stay inside");
    Ok(())
}
