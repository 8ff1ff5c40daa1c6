use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use anyhow::Result;
use cap_std::ambient_authority;

use super::*;
use crate::fixture::{StopFlag, run_unprivileged};

fn open(path: &Path) -> Result<Dir> {
    Ok(Dir::open_ambient_dir(path, ambient_authority())?)
}

#[test]
fn removes_deep_and_wide_trees() -> Result<()> {
    let home = tempfile::tempdir()?;
    let parent = open(home.path())?;
    parent.create_dir("tree")?;
    for (branch, depth) in [3000, 20, 20].into_iter().enumerate() {
        let mut dir = parent.open_dir("tree")?;
        for level in 0..depth {
            let name = format!("{branch}");
            dir.create_dir(&name)?;
            dir = dir.open_dir(&name)?;
            if level % 100 == 0 {
                dir.create(".gone-1")?;
                dir.create("file")?;
            }
        }
    }
    remove_tree(&parent, "tree".as_ref())?;
    assert!(!parent.exists("tree"));
    Ok(())
}

#[test]
fn removes_directories_without_owner_access() -> Result<()> {
    run_unprivileged(|| {
        let home = tempfile::tempdir()?;
        let tree = home.path().join("tree");
        fs::create_dir_all(tree.join("a/b/c"))?;
        fs::create_dir_all(tree.join("empty"))?;
        fs::create_dir_all(tree.join("readable/inner"))?;
        fs::write(tree.join("a/b/c/file"), "x")?;
        fs::write(tree.join("readable/file"), "x")?;
        for (path, mode) in
            [("a/b/c", 0), ("a/b", 0), ("a", 0), ("empty", 0), ("readable/inner", 0o500), ("readable", 0o500), ("", 0)]
        {
            fs::set_permissions(tree.join(path), fs::Permissions::from_mode(mode))?;
        }
        assert!(fs::read_dir(&tree).is_err(), "the directory is not readable");
        remove_tree(&open(home.path())?, "tree".as_ref())?;
        assert!(!tree.exists());
        Ok(())
    })
}

#[test]
fn removes_links_but_not_their_targets() -> Result<()> {
    let home = tempfile::tempdir()?;
    let (tree, outside) = (home.path().join("tree"), home.path().join("outside"));
    fs::create_dir_all(tree.join("sub"))?;
    fs::create_dir(&outside)?;
    fs::write(outside.join("canary"), "x")?;
    symlink(&outside, tree.join("dir"))?;
    symlink(&outside, tree.join("sub/dir"))?;
    fs::hard_link(outside.join("canary"), tree.join("sub/hard"))?;
    symlink(&outside, home.path().join("top"))?;
    let parent = open(home.path())?;
    remove_tree(&parent, "tree".as_ref())?;
    assert!(remove_tree(&parent, "top".as_ref()).is_err(), "a link is no tree");
    assert!(!tree.exists());
    assert_eq!(fs::read(outside.join("canary"))?, b"x");
    Ok(())
}

#[test]
fn p6_racing_swaps_of_directory_and_link_remove_nothing_outside() -> Result<()> {
    let home = tempfile::tempdir()?;
    let (work, outside) = (home.path().join("work"), home.path().join("outside"));
    for name in ["a", "a/b"] {
        fs::create_dir_all(outside.join(name))?;
        fs::write(outside.join(name).join("canary"), "x")?;
    }
    let parent = open(home.path())?;
    let stop = StopFlag::default();
    let swaps = std::thread::scope(|scope| -> Result<u64> {
        let guard = stop.set_on_drop();
        let racer = scope.spawn(|| {
            let mut swaps = 0u64;
            while !stop.is_over() {
                // Every step may fail, because the tree is being removed.
                for place in ["a", "a/b"].map(|name| work.join(name)) {
                    let aside = place.with_extension("aside");
                    let swapped = fs::rename(&place, &aside).and_then(|()| symlink(outside.join("a"), &place));
                    swaps += u64::from(swapped.is_ok());
                    let _ = fs::remove_file(&place);
                    let _ = fs::rename(&aside, &place);
                }
            }
            swaps
        });
        for _ in 0..200 {
            for name in ["a/b/c", "b/c"] {
                let _ = fs::create_dir_all(work.join(name));
                let _ = fs::write(work.join(name).join("file"), "x");
            }
            // The racer may make single attempts fail, but not all of them.
            let removed = (0..10_000).any(|_| remove_tree(&parent, "work".as_ref()).is_ok() || !work.exists());
            assert!(removed, "the tree stays");
        }
        drop(guard);
        Ok(racer.join().unwrap_or_default())
    })?;
    assert!(swaps > 0, "the racer never swapped anything");
    for name in ["a", "a/b"] {
        assert_eq!(fs::read(outside.join(name).join("canary"))?, b"x");
    }
    Ok(())
}

/// The inner test of [`leaves_mounted_file_systems_in_place`], run where mounting is permitted.
#[test]
#[ignore = "mounts a file system: run in a namespace of its own by another test"]
fn inside_a_mount_namespace() -> Result<()> {
    let home = tempfile::tempdir()?;
    let (tree, other) = (home.path().join("tree"), home.path().join("other"));
    fs::create_dir_all(tree.join("a/mounted"))?;
    fs::create_dir_all(tree.join("b"))?;
    fs::create_dir(&other)?;
    fs::write(other.join("canary"), "x")?;
    // The same file system is mounted at another path, so the device is the same.
    let mounted = std::process::Command::new("mount").arg("--bind").args([&other, &tree.join("a/mounted")]).status()?;
    anyhow::ensure!(mounted.success(), "mount --bind failed");
    let parent = open(home.path())?;
    let error = remove_tree(&parent, "tree".as_ref()).expect_err("a mount point is not removed");
    assert!(!tree.join("b").exists(), "the rest is gone");
    assert_eq!(fs::read(other.join("canary"))?, b"x");
    println!("left: {error}");
    let unmounted = std::process::Command::new("umount").arg(tree.join("a/mounted")).status()?;
    anyhow::ensure!(unmounted.success(), "umount failed");
    remove_tree(&parent, "tree".as_ref())?;
    // The tree itself is a mount.
    fs::create_dir(&tree)?;
    let mounted = std::process::Command::new("mount").arg("--bind").args([&other, &tree]).status()?;
    anyhow::ensure!(mounted.success(), "mount --bind failed");
    let error = remove_tree(&parent, "tree".as_ref()).expect_err("a mount point is not removed");
    assert_eq!(error.to_string(), MOUNT_POINT_REASON);
    assert_eq!(fs::read(other.join("canary"))?, b"x");
    Ok(())
}

#[cfg(target_os = "linux")]
#[test]
fn leaves_mounted_file_systems_in_place() -> Result<()> {
    let mut unshare = std::process::Command::new("unshare");
    unshare.arg("--mount");
    if !rustix::process::geteuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    let inner = "remove::tests::inside_a_mount_namespace";
    let run = unshare.arg(std::env::current_exe()?).args(["--exact", inner, "--ignored"]).output()?;
    let stdout_text = String::from_utf8_lossy(&run.stdout);
    let stderr_text = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && stdout_text.contains("1 passed"), "{stdout_text}{stderr_text}");
    Ok(())
}
