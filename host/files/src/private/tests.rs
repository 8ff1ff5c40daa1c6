use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};

use super::*;

/// A user id that no system assigns.
const OTHER_UID: u32 = 1_800_000_001;

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

fn refusal(path: &Path) -> String {
    private_dir(path).map_or_else(|error| error.to_string(), |()| "accepted".to_owned())
}

#[test]
fn creates_directories_only_for_the_user() -> io::Result<()> {
    let home = tempfile::tempdir()?;
    let path = home.path().join("a/b");
    private_dir(&path)?;
    private_dir(&path)?;
    for dir in [&path, &home.path().join("a")] {
        assert_eq!(fs::metadata(dir)?.mode() & 0o7777, 0o700);
    }
    Ok(())
}

#[test]
fn rejects_directory_writable_by_others() -> io::Result<()> {
    let home = tempfile::tempdir()?;
    let path = home.path().join("a");
    for mode in [0o770, 0o702, 0o1777] {
        private_dir(&path)?;
        set_mode(&path, mode)?;
        assert!(refusal(&path).contains("chmod go-w"), "{mode:o}: {}", refusal(&path));
        set_mode(&path, 0o700)?;
    }
    // Read access by others is allowed.
    set_mode(&path, 0o755)?;
    private_dir(&path)
}

#[test]
fn rejects_directory_below_one_writable_by_others() -> io::Result<()> {
    let home = tempfile::tempdir()?;
    let (parent, path) = (home.path().join("a"), home.path().join("a/b"));
    private_dir(&path)?;
    set_mode(&parent, 0o707)?;
    let refused = refusal(&path);
    assert!(refused.starts_with(&format!("{} is not safe", parent.display())), "{refused}");
    // In a sticky directory such as /tmp, users cannot rename the entries of others.
    set_mode(&parent, 0o1777)?;
    private_dir(&path)
}

#[test]
fn rejects_link_as_last_component_and_follows_safe_parents() -> io::Result<()> {
    let home = tempfile::tempdir()?;
    let real = home.path().join("real");
    private_dir(&real.join("inner"))?;
    let link = home.path().join("link");
    symlink("real", &link)?;
    assert!(refusal(&link).contains("symbolic link"), "{}", refusal(&link));
    private_dir(&link.join("inner"))?;
    // The target of a link is checked as well.
    set_mode(&real, 0o777)?;
    assert!(refusal(&link.join("inner")).contains("chmod go-w"));
    fs::write(home.path().join("file"), "")?;
    assert!(refusal(&home.path().join("file")).contains("not a directory"));
    Ok(())
}

#[test]
fn rejects_directory_of_another_user() -> io::Result<()> {
    let home = tempfile::tempdir()?;
    let path = home.path().join("a");
    private_dir(&path.join("b"))?;
    if !rustix::process::geteuid().is_root() {
        // Without root, the only available directories of another user are root's.
        assert!(refusal(Path::new("/usr")).contains("owned by user 0"));
        return Ok(());
    }
    chown(&path, Some(OTHER_UID), None)?;
    for refused in [refusal(&path), refusal(&path.join("b"))] {
        assert!(refused.contains("owned by user 1800000001") && refused.contains("CODEBOX_HOME"), "{refused}");
    }
    Ok(())
}
