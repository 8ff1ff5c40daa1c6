//! Private directories of a job, and their content before the job starts.

use std::path::PathBuf;

use codebox_core::{Access, GuestPath};
use codebox_files::{Dir, InstanceScratch, write_input_file};

use crate::caller::JobUser;
use crate::command::{HOOK_FILES, HOOKS_DIR};
use crate::error::ContainerError;
use crate::guest_modules::FILES;
use crate::mounts::{Bind, Granted, PROGRAM_DIR};

/// Private directories of a job: their names in its scratch directory, and their guest paths.
pub(super) const PRIVATE_DIRS: [(&str, &str); 2] = [("work", "/work"), ("tmp", "/tmp")];

/// Returns the private directories as binds that belong to the job's user.
pub(super) fn private_binds(
    scratch: &mut InstanceScratch,
    granted: &Granted,
    user: &JobUser,
) -> Result<Vec<Bind>, ContainerError> {
    let mut binds = Vec::new();
    let run = scratch.path("run");
    scratch.add("run").map_err(ContainerError::io("create", &run))?;
    binds.push(Bind { host: run, guest: PROGRAM_DIR.to_owned(), access: Access::ReadOnly });
    for (name, guest) in PRIVATE_DIRS {
        let host = scratch.path(name);
        let dir = scratch.open(name).map_err(ContainerError::io("open", &host))?;
        chown(&dir, user).map_err(ContainerError::io("change the owner of", &host))?;
        if GuestPath::new(guest).is_ok_and(|guest| !granted.covers(&guest)) {
            binds.push(Bind { host, guest: guest.to_owned(), access: Access::ReadWrite });
        }
    }
    // The mount points of granted directories are visible in a private directory, and an engine would create them as
    // root.
    for bind in &granted.binds {
        for (name, guest) in PRIVATE_DIRS {
            if let Some(rest) = bind.guest.strip_prefix(guest).and_then(|rest| rest.strip_prefix('/')) {
                let point = PathBuf::from(name).join(rest);
                scratch
                    .create_mount_point(&point)
                    .map_err(ContainerError::io("create a mount point in", &scratch.path(name)))?;
            }
        }
    }
    Ok(binds)
}

/// Writes the hook for TypeScript and the modules of the guest, and returns them as a bind.
pub(super) fn hook_bind(scratch: &mut InstanceScratch) -> Result<Bind, ContainerError> {
    let host = scratch.path("hook");
    scratch.add("hook").map_err(ContainerError::io("create", &host))?;
    let dir = scratch.open("hook").map_err(ContainerError::io("open", &host))?;
    let modules = FILES.iter().map(|(path, text)| (*path, *text));
    for (path, text) in HOOK_FILES.into_iter().chain(modules) {
        let parts: Vec<&str> = path.split('/').collect();
        write_input_file(&dir, &parts, text.as_bytes(), false).map_err(ContainerError::io("write", &host))?;
    }
    Ok(Bind { host, guest: HOOKS_DIR.to_owned(), access: Access::ReadOnly })
}

#[cfg(unix)]
fn chown(dir: &Dir, user: &JobUser) -> std::io::Result<()> {
    use crate::caller::FileOwnership;
    if user.owners == FileOwnership::Mapped {
        let (uid, gid) = (rustix::fs::Uid::from_raw(user.uid), rustix::fs::Gid::from_raw(user.gid));
        rustix::fs::chownat(dir, "", Some(uid), Some(gid), rustix::fs::AtFlags::EMPTY_PATH)?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn chown(_dir: &Dir, _user: &JobUser) -> std::io::Result<()> {
    Ok(())
}

/// Makes the job's user the owner of an input file and of the directories that lead to it.
#[cfg(unix)]
pub(super) fn own(dir: &Dir, parts: &[&str], user: &JobUser) -> std::io::Result<()> {
    use crate::caller::FileOwnership;
    if user.owners != FileOwnership::Mapped {
        return Ok(());
    }
    let (uid, gid) = (rustix::fs::Uid::from_raw(user.uid), rustix::fs::Gid::from_raw(user.gid));
    let mut dir = dir.try_clone()?;
    for (at, part) in parts.iter().enumerate() {
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(&dir, *part, Some(uid), Some(gid), flags)?;
        if at + 1 < parts.len() {
            dir = dir.open_dir(part)?;
        }
    }
    Ok(())
}

#[cfg(not(unix))]
pub(super) fn own(_dir: &Dir, _parts: &[&str], _user: &JobUser) -> std::io::Result<()> {
    Ok(())
}
