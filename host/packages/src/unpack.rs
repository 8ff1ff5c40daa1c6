//! Unpacking of wheel members into a new directory.

mod members;
mod names;
#[cfg(feature = "index")]
pub(crate) mod tarball;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use tempfile::Builder;
use zip::ZipArchive;

use crate::error::UnpackError;
use codebox_core::Progress;
use members::Member;
#[cfg(feature = "index")]
pub(crate) use names::is_safe_path;

/// Limits of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnpackLimits {
    /// Maximum unpacked size of all selected members together in bytes.
    pub bytes: u64,
    /// Maximum number of members in the whole archive, and of files together with the directories created for them.
    pub members: usize,
}

impl UnpackLimits {
    /// Refuses more members than allowed.
    fn check_member_count(&self, found: usize) -> Result<(), UnpackError> {
        match found > self.members {
            true => Err(UnpackError::TooMany { found, allowed: self.members }),
            false => Ok(()),
        }
    }
}

impl Default for UnpackLimits {
    /// Returns limits of 1 GiB and 20,000 members.
    fn default() -> Self {
        Self { bytes: 1 << 30, members: 20_000 }
    }
}

/// Unpacks selected members of a wheel into the directory `into`, within the default [`UnpackLimits`].
///
/// See [`unpack_wheel_within`].
///
/// # Errors
/// See [`UnpackError`]; after any of them `into` is unchanged.
pub fn unpack_wheel(wheel: &Path, select: &[&str], into: &Path, progress: &dyn Progress) -> Result<(), UnpackError> {
    unpack_wheel_within(&UnpackLimits::default(), wheel, select, into, progress)
}

/// Unpacks selected members of a wheel into the directory `into`.
///
/// `select` lists member names; a name that ends in `/` selects everything below it, and `""` selects the whole wheel.
/// Each name must match a member. Members keep their full names below `into`; permissions and times in the archive are
/// ignored.
///
/// `into` must be absent or an empty directory, and its parent must exist. Everything is written to a directory next to
/// `into` (`.codebox-unpack-…`), which is renamed when it is complete and synced to the disk.
///
/// The archive is not trusted, even if its hash is correct: before anything is written, the archive is refused as a
/// whole if any member, selected or not, has a name that is absolute, refers to a parent directory or is not plain
/// UTF-8 with `/`, occurs twice, or is neither a file nor a directory. Data that unpacks to more than the declared size
/// is refused as well.
///
/// # Errors
/// See [`UnpackError`]; after any of them `into` is unchanged.
pub fn unpack_wheel_within(
    limits: &UnpackLimits,
    wheel: &Path,
    select: &[&str],
    into: &Path,
    progress: &dyn Progress,
) -> Result<(), UnpackError> {
    let mut archive = members::open(wheel)?;
    let chosen = members::choose(&mut archive, wheel, select, limits)?;
    if !is_unused(into) {
        return Err(UnpackError::Occupied(into.to_owned()));
    }
    let unwritable = |source| UnpackError::Write { path: into.to_owned(), source };
    let parent = match into.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let staged = Builder::new().prefix(".codebox-unpack-").tempdir_in(parent).map_err(unwritable)?;
    // The tree is renamed as a whole below, so that a failure or a panic leaves only the staging directory to remove.
    let tree = staged.path().join("tree");
    fs::create_dir(&tree).map_err(unwritable)?;

    let total = chosen.iter().map(|member| member.size).sum();
    let what = wheel.file_name().unwrap_or_default().to_string_lossy();
    progress.started(&format!("unpacking {what}"), Some(total));
    let mut directories = 0;
    for member in &chosen {
        let path = tree.join(&member.name);
        if let Some(parent) = path.parent() {
            let unwritable = |source| UnpackError::Write { path: path.clone(), source };
            directories += create_dirs(parent).map_err(unwritable)?;
        }
        limits.check_member_count(chosen.len() + directories)?;
        extract(&mut archive, member, &path, progress)?;
    }
    // Some systems cannot rename a directory over an empty one.
    if into.exists() {
        fs::remove_dir(into).map_err(unwritable)?;
    }
    fs::rename(&tree, into).map_err(unwritable)?;
    sync_directory(parent);
    progress.finished();
    Ok(())
}

/// Writes one member to a new file, up to the member's declared size.
fn extract(
    archive: &mut ZipArchive<File>,
    member: &Member,
    path: &Path,
    progress: &dyn Progress,
) -> Result<(), UnpackError> {
    let unwritable = |source| UnpackError::Write { path: path.to_owned(), source };
    let unreadable = |source| UnpackError::Member { member: member.name.clone(), source };
    let mut data = archive.by_index(member.at).map_err(|error| unreadable(io::Error::other(error)))?;
    let mut file = File::create_new(path).map_err(unwritable)?;
    let mut buffer = vec![0; 1 << 16];
    let mut written = 0;
    loop {
        let count = data.read(&mut buffer).map_err(unreadable)?;
        if count == 0 {
            break;
        }
        written += count as u64;
        if written > member.size {
            return Err(UnpackError::TooLarge { member: member.name.clone(), allowed: member.size });
        }
        file.write_all(&buffer[..count]).map_err(unwritable)?;
        progress.advanced(count as u64);
    }
    if written < member.size {
        return Err(unreadable(io::ErrorKind::UnexpectedEof.into()));
    }
    file.sync_all().map_err(unwritable)
}

/// Creates a directory and its missing parents. Returns the number of created directories.
fn create_dirs(dir: &Path) -> io::Result<usize> {
    match (fs::create_dir(dir), dir.parent()) {
        (Ok(()), _) => Ok(1),
        (Err(error), _) if error.kind() == io::ErrorKind::AlreadyExists => Ok(0),
        (Err(error), Some(above)) if error.kind() == io::ErrorKind::NotFound => {
            let above = create_dirs(above)?;
            fs::create_dir(dir)?;
            Ok(above + 1)
        }
        (Err(error), _) => Err(error),
    }
}

/// Returns true if a path is unused or is an empty directory.
fn is_unused(into: &Path) -> bool {
    match fs::symlink_metadata(into) {
        Ok(found) => found.is_dir() && fs::read_dir(into).is_ok_and(|mut entries| entries.next().is_none()),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Syncs a directory, so that a rename in it is durable. Errors are ignored: some systems cannot sync a directory, and
/// the file is complete either way.
pub(crate) fn sync_directory(directory: &Path) {
    if let Ok(directory) = File::open(directory) {
        drop(directory.sync_all());
    }
}
