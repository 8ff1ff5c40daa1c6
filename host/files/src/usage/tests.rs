use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
use std::path::Path;

use anyhow::Result;
use cap_std::ambient_authority;

use super::*;
use crate::bench::{Over, as_plain_owner};

fn used(path: &Path, ceiling: Ceiling) -> Result<Used> {
    Ok(measure(&Dir::open_ambient_dir(path, ambient_authority())?, ceiling))
}

fn blocks(path: &Path) -> Result<u64> {
    Ok(fs::symlink_metadata(path)?.blocks() * 512)
}

#[test]
fn blocks_are_counted_and_not_lengths() -> Result<()> {
    let home = tempfile::tempdir()?;
    assert_eq!(used(home.path(), Ceiling::default())?, Used::default());
    let (full, sparse, sub) = (home.path().join("full"), home.path().join("sparse"), home.path().join("sub"));
    fs::write(&full, vec![1; 100_000])?;
    fs::File::create(&sparse)?.set_len(1 << 40)?;
    fs::create_dir(&sub)?;
    fs::hard_link(&full, sub.join("again"))?;
    symlink("/", sub.join("root"))?;
    let want = [&full, &sparse, &sub, &sub.join("root")].map(|path| blocks(path)).into_iter().sum::<Result<u64>>()?;
    let got = used(home.path(), Ceiling::default())?;
    assert_eq!(got, Used { bytes: want, entries: 5, unseen: 0 });
    assert!(got.bytes >= 100_000 && got.bytes < 1 << 20, "{got:?}");
    Ok(())
}

#[test]
fn it_ends_at_the_first_entry_over_a_ceiling() -> Result<()> {
    let home = tempfile::tempdir()?;
    for number in 0..200 {
        fs::write(home.path().join(number.to_string()), vec![1; 10_000])?;
    }
    let ceiling = Ceiling { bytes: None, entries: Some(50) };
    let got = used(home.path(), ceiling)?;
    assert_eq!(got.entries, 51);
    assert!(got.is_over(ceiling));
    let ceiling = Ceiling { bytes: Some(100_000), entries: None };
    let got = used(home.path(), ceiling)?;
    assert!(got.is_over(ceiling) && got.entries < 20, "{got:?}");
    let all = used(home.path(), Ceiling { bytes: None, entries: Some(200) })?;
    assert_eq!((all.entries, all.is_over(Ceiling { bytes: None, entries: Some(200) })), (200, false));
    Ok(())
}

#[test]
fn a_deep_tree_is_counted_to_its_end() -> Result<()> {
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
    let got = used(home.path(), Ceiling::default())?;
    assert_eq!((got.entries, got.unseen), (4 * 3000, 0));
    Ok(())
}

fn close(path: &Path) -> Result<()> {
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o000))?)
}

fn mode(path: &Path) -> Result<u32> {
    Ok(fs::symlink_metadata(path)?.permissions().mode() & 0o7777)
}

#[test]
fn what_its_owner_closed_is_counted_and_left_closed() -> Result<()> {
    as_plain_owner(|| {
        let home = tempfile::tempdir()?;
        let (work, closed) = (home.path().join("work"), home.path().join("work/a/closed"));
        fs::create_dir_all(&closed)?;
        fs::write(closed.join("hidden"), vec![1; 100_000])?;
        let dir = Dir::open_ambient_dir(&work, ambient_authority())?;
        let open = measure(&dir, Ceiling::default());
        // Directories without read permission, without execute permission, and without both; then all levels.
        for bits in [0o000, 0o300, 0o400, 0o200] {
            fs::set_permissions(&closed, fs::Permissions::from_mode(bits))?;
            assert_eq!(measure(&dir, Ceiling::default()), open, "{bits:o}");
            assert_eq!(mode(&closed)?, bits);
            // The mode is also restored if the walk ends early.
            assert!(measure(&dir, Ceiling { bytes: Some(50_000), entries: None }).bytes > 50_000, "{bits:o}");
            assert_eq!(mode(&closed)?, bits);
        }
        for path in [&closed, &work.join("a"), &work] {
            close(path)?;
        }
        assert_eq!(measure(&dir, Ceiling::default()), open);
        assert_eq!(mode(&work)?, 0);
        fs::set_permissions(&work, fs::Permissions::from_mode(0o700))?;
        assert_eq!(mode(&work.join("a"))?, 0);
        fs::set_permissions(work.join("a"), fs::Permissions::from_mode(0o700))?;
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700))?;
        Ok(())
    })
}

#[test]
fn what_cannot_be_looked_into_is_told() -> Result<()> {
    as_plain_owner(|| {
        let home = tempfile::tempdir()?;
        let deep = (0..=MAX_HELD).fold(home.path().to_owned(), |path, _| path.join("d"));
        fs::create_dir_all(&deep)?;
        fs::write(deep.join("hidden"), vec![1; 100_000])?;
        close(&deep)?;
        let got = used(home.path(), Ceiling::default())?;
        fs::set_permissions(&deep, fs::Permissions::from_mode(0o700))?;
        assert_eq!((got.entries, got.unseen), (MAX_HELD as u64 + 1, 1));
        Ok(())
    })?;
    // `/proc` is on another device than the root.
    #[cfg(target_os = "linux")]
    {
        let root = Dir::open_ambient_dir("/", ambient_authority())?;
        let mut used = Used::default();
        let device = root.dir_metadata()?.dev();
        let mut walk = Walk { ceiling: Ceiling::default(), used: &mut used, device, seen: HashSet::new(), waiting: 0 };
        assert!(walk.enter(&root, &OsString::from("proc")).is_none());
        assert!(walk.enter(&root, &OsString::from("usr")).is_some());
        assert_eq!(used.unseen, 1);
    }
    Ok(())
}

#[test]
fn a_tree_that_changes_meanwhile_is_measured_to_an_end() -> Result<()> {
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
    let over = Over::default();
    std::thread::scope(|scope| -> Result<()> {
        let ends = over.on_drop();
        let racer = scope.spawn(|| {
            let (place, aside) = (work.join("d/d/d"), work.join("aside"));
            let mut swaps = 0u64;
            while !over.is_over() {
                let swapped = fs::rename(&place, &aside).and_then(|()| symlink(&outside, &place));
                swaps += u64::from(swapped.is_ok());
                let _ = fs::remove_file(&place);
                let _ = fs::rename(&aside, &place);
            }
            swaps
        });
        for _ in 0..300 {
            let got = used(&work, Ceiling::default())?;
            assert!(got.entries <= 210, "it went outside or in circles: {got:?}");
        }
        drop(ends);
        assert!(racer.join().unwrap_or_default() > 0, "the racer never swapped anything");
        Ok(())
    })
}
