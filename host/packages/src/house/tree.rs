//! Moving, linking and sealing of file trees. Symbolic links are neither followed nor copied.

use std::fs::{self, Permissions};
use std::io;
use std::path::Path;

/// Creates a directory that only its owner can enter, including its parents.
pub(super) fn private(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// Makes a directory readable for all users.
pub(super) fn shown(dir: &Path) -> io::Result<()> {
    #[cfg(unix)]
    fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let _ = dir;
    Ok(())
}

/// Makes every directory of a tree readable for all users.
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

/// Makes a file read-only, and readable for all users.
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

/// Moves everything below `from` to `to`, and seals the files. Existing files in `to` stay.
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

/// Hard-links everything below `from` into `to`, except top-level modules with a name in `left_out`. Existing files in
/// `to` stay.
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
            // Some file systems have no hard links, and most limit their number.
            if fs::hard_link(entry.path(), &target).is_err() {
                fs::copy(entry.path(), &target)?;
                sealed(&target)?;
            }
        }
    }
    Ok(())
}

/// Copies the regular bytecode files below `from` to `to`, sealed.
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

/// Renames a complete directory to its final path. If another process has created that path, its directory stays.
pub(super) fn into_place(ready: &Path, place: &Path) -> io::Result<()> {
    if place.is_dir() {
        return Ok(());
    }
    match fs::rename(ready, place) {
        Err(_) if place.is_dir() => Ok(()),
        done => done,
    }
}
