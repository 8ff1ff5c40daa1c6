//! Moving, linking and sealing of file trees. Symbolic links are neither followed nor copied.

use std::fs::{self, Permissions};
use std::io::{self, Read as _};
use std::path::Path;

/// Creates a directory that only its owner can enter, including its parents.
pub(super) fn create_private_dir(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// Makes a directory readable for all users.
pub(super) fn make_dir_readable(dir: &Path) -> io::Result<()> {
    #[cfg(unix)]
    fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let _ = dir;
    Ok(())
}

/// Makes every directory of a tree readable for all users.
pub(super) fn make_dirs_readable(dir: &Path) -> io::Result<()> {
    make_dir_readable(dir)?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_dirs_readable(&entry.path())?;
        }
    }
    Ok(())
}

/// Makes a file read-only, and readable for all users.
fn make_read_only(file: &Path) -> io::Result<()> {
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
pub(super) fn move_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    make_dir_readable(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            move_tree(&entry.path(), &target)?;
        } else if kind.is_file() && !target.exists() {
            fs::rename(entry.path(), &target)?;
            make_read_only(&target)?;
        }
    }
    Ok(())
}

/// Hard-links everything below `from` into `to`, except top-level modules with a name in `excluded_modules`. Existing files in
/// `to` stay.
pub(super) fn link_tree(from: &Path, to: &Path, excluded_modules: &[String]) -> io::Result<()> {
    fs::create_dir_all(to)?;
    make_dir_readable(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, name) = (entry.file_type()?, entry.file_name());
        let module = name.to_str().map(|name| name.split('.').next().unwrap_or(name));
        if excluded_modules.iter().any(|library| Some(library.as_str()) == module) {
            continue;
        }
        let target = to.join(&name);
        if kind.is_dir() {
            link_tree(&entry.path(), &target, &[])?;
        } else if kind.is_file() && fs::symlink_metadata(&target).is_err() {
            // Some file systems have no hard links, and most limit their number.
            if fs::hard_link(entry.path(), &target).is_err() {
                fs::copy(entry.path(), &target)?;
                make_read_only(&target)?;
            }
        }
    }
    Ok(())
}

/// Copies the programs of a directory that are machine code to `to`, so that all users can execute them.
pub(super) fn copy_native_programs(from: &Path, to: &Path) -> io::Result<()> {
    const MAGIC: &[u8] = b"\x7fELF";
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let mut start = [0; MAGIC.len()];
        let is_program = entry.file_type()?.is_file()
            && fs::File::open(entry.path()).and_then(|mut file| file.read_exact(&mut start)).is_ok()
            && start == MAGIC;
        if is_program && fs::symlink_metadata(&target).is_err() {
            fs::create_dir_all(to)?;
            make_dir_readable(to)?;
            fs::copy(entry.path(), &target)?;
            #[cfg(unix)]
            fs::set_permissions(&target, std::os::unix::fs::PermissionsExt::from_mode(0o555))?;
        }
    }
    Ok(())
}

/// Copies the regular bytecode files below `from` to `to`, sealed.
pub(super) fn copy_bytecode(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    make_dir_readable(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_bytecode(&entry.path(), &target)?;
        } else if kind.is_file() && entry.path().extension().is_some_and(|ending| ending == "pyc") {
            fs::copy(entry.path(), &target)?;
            make_read_only(&target)?;
        }
    }
    Ok(())
}

/// Renames a complete directory to its final path. If another process has created that path, its directory stays.
pub(super) fn rename_into_place(ready: &Path, entry_dir: &Path) -> io::Result<()> {
    if entry_dir.is_dir() {
        return Ok(());
    }
    match fs::rename(ready, entry_dir) {
        Err(_) if entry_dir.is_dir() => Ok(()),
        done => done,
    }
}
