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
    // A file and a second folder on every level, found before or after the way down.
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

#[test]
fn what_is_closed_or_on_another_file_system_is_told() -> Result<()> {
    as_plain_owner(|| {
        let home = tempfile::tempdir()?;
        let closed = home.path().join("closed");
        fs::create_dir(&closed)?;
        fs::write(closed.join("hidden"), vec![1; 100_000])?;
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000))?;
        let got = used(home.path(), Ceiling::default())?;
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700))?;
        assert_eq!((got.entries, got.unseen), (1, 1));
        Ok(())
    })?;
    // The device of `/proc` is not that of the root.
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
