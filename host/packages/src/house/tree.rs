//! Trees of files: moved, linked and made read-only. Links are neither followed nor taken over.

use std::fs::{self, Permissions};
use std::io;
use std::path::Path;

/// Makes a directory that only its owner can enter, and those above it.
pub(super) fn private(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// Lets whoever is shown it read a directory.
pub(super) fn shown(dir: &Path) -> io::Result<()> {
    #[cfg(unix)]
    fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let _ = dir;
    Ok(())
}

/// Lets whoever is shown a tree read every directory in it.
pub(super) fn all_shown(dir: &Path) -> io::Result<()> {
    shown(dir)?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            all_shown(&entry.path())?;
        }
    }
    Ok(())
}

/// Nobody writes to it again, and everybody who is shown it reads it.
fn sealed(file: &Path) -> io::Result<()> {
    #[cfg(unix)]
    let permissions: Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o444);
    #[cfg(not(unix))]
    let permissions: Permissions = {
        let mut permissions = fs::metadata(file)?.permissions();
        permissions.set_readonly(true);
        permissions
    };
    fs::set_permissions(file, permissions)
}

/// Moves everything below `from` to `to`; what is there already stays. Files are sealed.
pub(super) fn moved(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    shown(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            moved(&entry.path(), &target)?;
        } else if kind.is_file() && !target.exists() {
            fs::rename(entry.path(), &target)?;
            sealed(&target)?;
        }
    }
    Ok(())
}

/// Links everything below `from` into `to`, but for modules at its top that have one of these names; what is there
/// already stays.
pub(super) fn link(from: &Path, to: &Path, left_out: &[String]) -> io::Result<()> {
    fs::create_dir_all(to)?;
    shown(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, name) = (entry.file_type()?, entry.file_name());
        let module = name.to_str().map(|name| name.split('.').next().unwrap_or(name));
        if left_out.iter().any(|library| Some(library.as_str()) == module) {
            continue;
        }
        let target = to.join(&name);
        if kind.is_dir() {
            link(&entry.path(), &target, &[])?;
        } else if kind.is_file() && fs::symlink_metadata(&target).is_err() {
            // Some file systems have no links, and most have a bound on them.
            if fs::hard_link(entry.path(), &target).is_err() {
                fs::copy(entry.path(), &target)?;
                sealed(&target)?;
            }
        }
    }
    Ok(())
}

/// Copies the plain files of bytecode below `from` to `to`, sealed.
pub(super) fn bytecode(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    shown(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            bytecode(&entry.path(), &target)?;
        } else if kind.is_file() && entry.path().extension().is_some_and(|ending| ending == "pyc") {
            fs::copy(entry.path(), &target)?;
            sealed(&target)?;
        }
    }
    Ok(())
}

/// Gives a whole directory its name; one that another process put there first is as good.
pub(super) fn into_place(ready: &Path, place: &Path) -> io::Result<()> {
    if place.is_dir() {
        return Ok(());
    }
    match fs::rename(ready, place) {
        Err(_) if place.is_dir() => Ok(()),
        done => done,
    }
}
