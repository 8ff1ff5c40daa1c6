use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};

use super::*;

/// A user id that no system assigns.
const SOMEBODY_ELSE: u32 = 1_800_000_001;

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

fn refusal(path: &Path) -> String {
    private_dir(path).map_or_else(|error| error.to_string(), |()| "accepted".to_owned())
}

#[test]
fn makes_directories_for_the_user_alone() -> io::Result<()> {
    let home = tempfile::tempdir()?;
    let path = home.path().join("a/b");
    private_dir(&path)?;
    private_dir(&path)?;
    for made in [&path, &home.path().join("a")] {
        assert_eq!(fs::metadata(made)?.mode() & 0o7777, 0o700);
    }
    Ok(())
}

#[test]
fn refuses_a_directory_that_others_may_write_to() -> io::Result<()> {
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
fn refuses_a_directory_below_one_that_others_may_write_to() -> io::Result<()> {
    let home = tempfile::tempdir()?;
    let (above, path) = (home.path().join("a"), home.path().join("a/b"));
    private_dir(&path)?;
    set_mode(&above, 0o707)?;
    let refused = refusal(&path);
    assert!(refused.starts_with(&format!("{} is not safe", above.display())), "{refused}");
    // In a sticky directory such as /tmp, users cannot rename the entries of others.
    set_mode(&above, 0o1777)?;
    private_dir(&path)
}

#[test]
fn refuses_a_link_in_the_last_component_and_follows_safe_ones_above() -> io::Result<()> {
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
fn refuses_what_belongs_to_another_user() -> io::Result<()> {
    let home = tempfile::tempdir()?;
    let path = home.path().join("a");
    private_dir(&path.join("b"))?;
    if !rustix::process::geteuid().is_root() {
        // Without root, the only available directories of another user are root's.
        assert!(refusal(Path::new("/usr")).contains("owned by user 0"));
        return Ok(());
    }
    chown(&path, Some(SOMEBODY_ELSE), None)?;
    for refused in [refusal(&path), refusal(&path.join("b"))] {
        assert!(refused.contains("owned by user 1800000001") && refused.contains("CODEBOX_HOME"), "{refused}");
    }
    Ok(())
}
