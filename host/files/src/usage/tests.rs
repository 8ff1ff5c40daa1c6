use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
use std::path::Path;

use anyhow::Result;
use cap_std::ambient_authority;

use super::*;
use crate::fixture::{StopFlag, run_unprivileged};

fn used(path: &Path, ceiling: UsageLimits) -> Result<DiskUsage> {
    Ok(measure(&Dir::open_ambient_dir(path, ambient_authority())?, ceiling))
}

fn blocks(path: &Path) -> Result<u64> {
    Ok(fs::symlink_metadata(path)?.blocks() * 512)
}

#[test]
fn counts_allocated_blocks() -> Result<()> {
    let home = tempfile::tempdir()?;
    assert_eq!(used(home.path(), UsageLimits::default())?, DiskUsage::default());
    let (full, sparse, sub) = (home.path().join("full"), home.path().join("sparse"), home.path().join("sub"));
    fs::write(&full, vec![1; 100_000])?;
    fs::File::create(&sparse)?.set_len(1 << 40)?;
    fs::create_dir(&sub)?;
    fs::hard_link(&full, sub.join("again"))?;
    symlink("/", sub.join("root"))?;
    let want = [&full, &sparse, &sub, &sub.join("root")].map(|path| blocks(path)).into_iter().sum::<Result<u64>>()?;
    let got = used(home.path(), UsageLimits::default())?;
    assert_eq!(got, DiskUsage { bytes: want, entries: 5, unreadable: 0 });
    assert!(got.bytes >= 100_000 && got.bytes < 1 << 20, "{got:?}");
    Ok(())
}

#[test]
fn stops_at_first_entry_over_limit() -> Result<()> {
    let home = tempfile::tempdir()?;
    for number in 0..200 {
        fs::write(home.path().join(number.to_string()), vec![1; 10_000])?;
    }
    let ceiling = UsageLimits { bytes: None, entries: Some(50) };
    let got = used(home.path(), ceiling)?;
    assert_eq!(got.entries, 51);
    assert!(got.is_over(ceiling));
    let ceiling = UsageLimits { bytes: Some(100_000), entries: None };
    let got = used(home.path(), ceiling)?;
    assert!(got.is_over(ceiling) && got.entries < 20, "{got:?}");
    let all = used(home.path(), UsageLimits { bytes: None, entries: Some(200) })?;
    assert_eq!((all.entries, all.is_over(UsageLimits { bytes: None, entries: Some(200) })), (200, false));
    Ok(())
}

#[test]
fn counts_deep_trees() -> Result<()> {
    let home = tempfile::tempdir()?;
    let mut dir = Dir::open_ambient_dir(home.path(), ambient_authority())?;
    // A file and a second directory on every level, found before or after the descent.
    for _ in 0..3000 {
        for name in ["deeper", "a", "z"] {
            dir.create_dir(name)?;
        }
        dir.write("a/file", "x")?;
        dir = dir.open_dir("deeper")?;
    }
    let got = used(home.path(), UsageLimits::default())?;
    assert_eq!((got.entries, got.unreadable), (4 * 3000, 0));
    Ok(())
}

fn close(path: &Path) -> Result<()> {
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o000))?)
}

fn mode(path: &Path) -> Result<u32> {
    Ok(fs::symlink_metadata(path)?.permissions().mode() & 0o7777)
}

#[test]
fn counts_inaccessible_directories_and_restores_their_mode() -> Result<()> {
    run_unprivileged(|| {
        let home = tempfile::tempdir()?;
        let (work, closed) = (home.path().join("work"), home.path().join("work/a/closed"));
        fs::create_dir_all(&closed)?;
        fs::write(closed.join("hidden"), vec![1; 100_000])?;
        let dir = Dir::open_ambient_dir(&work, ambient_authority())?;
        let open = measure(&dir, UsageLimits::default());
        // Directories without read permission, without execute permission, and without both; then all levels.
        for bits in [0o000, 0o300, 0o400, 0o200] {
            fs::set_permissions(&closed, fs::Permissions::from_mode(bits))?;
            assert_eq!(measure(&dir, UsageLimits::default()), open, "{bits:o}");
            assert_eq!(mode(&closed)?, bits);
            // The mode is also restored if the walk ends early.
            assert!(measure(&dir, UsageLimits { bytes: Some(50_000), entries: None }).bytes > 50_000, "{bits:o}");
            assert_eq!(mode(&closed)?, bits);
        }
        for path in [&closed, &work.join("a"), &work] {
            close(path)?;
        }
        assert_eq!(measure(&dir, UsageLimits::default()), open);
        assert_eq!(mode(&work)?, 0);
        fs::set_permissions(&work, fs::Permissions::from_mode(0o700))?;
        assert_eq!(mode(&work.join("a"))?, 0);
        fs::set_permissions(work.join("a"), fs::Permissions::from_mode(0o700))?;
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700))?;
        Ok(())
    })
}

#[test]
fn reports_unreadable_directories() -> Result<()> {
    run_unprivileged(|| {
        let home = tempfile::tempdir()?;
        let deep = (0..=MAX_OPEN_LEVELS).fold(home.path().to_owned(), |path, _| path.join("d"));
        fs::create_dir_all(&deep)?;
        fs::write(deep.join("hidden"), vec![1; 100_000])?;
        close(&deep)?;
        let got = used(home.path(), UsageLimits::default())?;
        fs::set_permissions(&deep, fs::Permissions::from_mode(0o700))?;
        assert_eq!((got.entries, got.unreadable), (MAX_OPEN_LEVELS as u64 + 1, 1));
        Ok(())
    })?;
    // `/proc` is on another device than the root.
    #[cfg(target_os = "linux")]
    {
        let root = Dir::open_ambient_dir("/", ambient_authority())?;
        let mut used = DiskUsage::default();
        let device = root.dir_metadata()?.dev();
        let mut walk =
            Walk { ceiling: UsageLimits::default(), used: &mut used, device, visited: HashSet::new(), pending: 0 };
        assert!(walk.open_unvisited(&root, &OsString::from("proc")).is_none());
        assert!(walk.open_unvisited(&root, &OsString::from("usr")).is_some());
        assert_eq!(used.unreadable, 1);
    }
    Ok(())
}

#[test]
fn terminates_on_concurrently_changing_tree() -> Result<()> {
    let home = tempfile::tempdir()?;
    let (work, outside) = (home.path().join("work"), home.path().join("outside"));
    fs::create_dir_all(outside.join("many"))?;
    for number in 0..2000 {
        fs::write(outside.join("many").join(number.to_string()), "x")?;
    }
    fs::create_dir(&work)?;
    let mut deep = Dir::open_ambient_dir(&work, ambient_authority())?;
    for _ in 0..200 {
        deep.create_dir("d")?;
        deep = deep.open_dir("d")?;
    }
    let stop = StopFlag::default();
    std::thread::scope(|scope| -> Result<()> {
        let guard = stop.set_on_drop();
        let racer = scope.spawn(|| {
            let (place, aside) = (work.join("d/d/d"), work.join("aside"));
            let mut swaps = 0u64;
            while !stop.is_over() {
                let swapped = fs::rename(&place, &aside).and_then(|()| symlink(&outside, &place));
                swaps += u64::from(swapped.is_ok());
                let _ = fs::remove_file(&place);
                let _ = fs::rename(&aside, &place);
            }
            swaps
        });
        for _ in 0..300 {
            let got = used(&work, UsageLimits::default())?;
            assert!(got.entries <= 210, "it went outside or in circles: {got:?}");
        }
        drop(guard);
        assert!(racer.join().unwrap_or_default() > 0, "the racer never swapped anything");
        Ok(())
    })
}
