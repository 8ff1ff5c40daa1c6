//! Ownership checks on Unix: which other users could change a file or directory.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use crate::trust::UntrustedReason;

const GROUP_MAY_WRITE: u32 = 0o020;
const OTHERS_MAY_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// The largest number of symbolic links that the kernel follows in one path.
const MAX_LINKS: usize = 40;

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Checks that a file or directory belongs to this user and that no other user may write to it.
pub(crate) fn check_own(meta: &Metadata) -> Result<(), UntrustedReason> {
    if meta.uid() != user() {
        return Err(UntrustedReason::Owner { owner: meta.uid(), user: user() });
    }
    check_mode(meta)
}

/// Checks that a file or directory belongs to this user or to root and that no other user may write to it.
///
/// # Errors
/// The reason if another user could change it.
pub fn check_own_or_root(meta: &Metadata) -> Result<(), UntrustedReason> {
    if meta.uid() == 0 { check_mode(meta) } else { check_own(meta) }
}

fn check_mode(meta: &Metadata) -> Result<(), UntrustedReason> {
    if meta.mode() & (GROUP_MAY_WRITE | OTHERS_MAY_WRITE) == 0 { Ok(()) } else { Err(UntrustedReason::Writable) }
}

/// Checks that no other user can replace `path` by writing to one of its parent directories.
///
/// Links on the path are followed as the kernel does, and the directories that contain the links are checked too.
pub(crate) fn check_parents(path: &Path) -> io::Result<()> {
    let root = fs::symlink_metadata("/")?.uid();
    let mut links = MAX_LINKS;
    std::path::absolute(path)?.ancestors().skip(1).try_for_each(|parent| check_parent(parent, root, &mut links))
}

/// Checks that no other user can replace the target of `path` by writing to a directory or link on the way. A missing
/// entry is judged by its parent directory. A dangling link is an error.
///
/// # Errors
/// The reason with the path of the directory or link.
pub fn check_resolved_path(path: &Path) -> io::Result<()> {
    let root = fs::symlink_metadata("/")?.uid();
    let mut links = MAX_LINKS;
    let path = std::path::absolute(path)?;
    let is_link = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_symlink());
    let first = usize::from(!is_link);
    for ancestor in path.ancestors().skip(first) {
        let is_absent = fs::symlink_metadata(ancestor).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        match check_parent(ancestor, root, &mut links) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && is_absent => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let dangling = format!("{} is a dangling symbolic link", ancestor.display());
                return Err(io::Error::other(dangling));
            }
            checked => checked?,
        }
    }
    Ok(())
}

/// Checks one directory, or one link to a directory with all directories on the path of its target.
fn check_parent(parent: &Path, root: u32, links: &mut usize) -> io::Result<()> {
    let meta = fs::symlink_metadata(parent)?;
    // The owner of the root directory (in a user namespace not always user 0) can change everything anyway.
    if ![user(), 0, root].contains(&meta.uid()) {
        return Err(UntrustedReason::Owner { owner: meta.uid(), user: user() }.at(parent));
    }
    if !meta.is_symlink() {
        return if allows_replacement(&meta) { Err(UntrustedReason::Writable.at(parent)) } else { Ok(()) };
    }
    *links = links.checked_sub(1).ok_or_else(|| io::Error::other("too many symbolic links"))?;
    let link_dir = parent.parent().unwrap_or(Path::new("/"));
    let target = resolve_parent_components(&link_dir.join(fs::read_link(parent)?))?;
    target.ancestors().try_for_each(|ancestor| check_parent(ancestor, root, links))
}

/// Checks that a file belongs to this user or to root, and that only its owner and the user's private group may write
/// to it. By convention, a user's private group has the id of the user.
///
/// # Errors
/// The reason if another user could change it.
pub fn check_own_or_private(meta: &Metadata) -> Result<(), UntrustedReason> {
    // In a user namespace, files of root can appear as those of another user, who then owns the root directory too.
    let root = fs::symlink_metadata("/").map(|root| root.uid());
    if ![0, user()].contains(&meta.uid()) && root.ok() != Some(meta.uid()) {
        return Err(UntrustedReason::Owner { owner: meta.uid(), user: user() });
    }
    if meta.mode() & others_may_write(meta) == 0 { Ok(()) } else { Err(UntrustedReason::Writable) }
}

/// Returns the mode bits that let users other than the owner write.
fn others_may_write(meta: &Metadata) -> u32 {
    // By convention, a user's private group has the id of the user and no other member.
    let is_private_group = user() != 0 && meta.gid() == user();
    if is_private_group { OTHERS_MAY_WRITE } else { GROUP_MAY_WRITE | OTHERS_MAY_WRITE }
}

/// Returns true if users other than the owner may rename the entries of the directory.
fn allows_replacement(meta: &Metadata) -> bool {
    // In a sticky directory (/tmp), an entry can be renamed only by the owner of the entry or of the directory.
    let is_sticky = meta.mode() & STICKY != 0;
    meta.mode() & others_may_write(meta) != 0 && !is_sticky
}

/// Resolves `..` in the target of a link through the kernel, because the directory before it may be a link itself.
fn resolve_parent_components(path: &Path) -> io::Result<PathBuf> {
    if path.components().any(|part| part == Component::ParentDir) { path.canonicalize() } else { Ok(path.to_owned()) }
}
