//! File system operations of the package stores.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use tempfile::Builder;

/// Name prefix of directories that are being removed.
pub(crate) const TRASH_PREFIX: &str = ".gone-";

/// Returns the sorted names in a directory, except those that start with a dot, which belong to unfinished entries.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    names
}

/// Opens a regular file at a path that came from outside.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // Opening a pipe would block.
    match fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::other(format!("{} is not a regular file", path.display()))),
    }
}

/// Returns the total size in bytes of the files in a tree, without following links.
pub(crate) fn size(path: &Path) -> u64 {
    let Ok(meta) = fs::symlink_metadata(path) else { return 0 };
    if !meta.is_dir() {
        return meta.len();
    }
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| size(&entry.path())).sum()
}

/// Removes a directory, if it exists. The directory is renamed before its contents are deleted, so that an interrupted
/// removal leaves no incomplete directory under the original name.
pub(crate) fn remove(entry_dir: &Path) -> io::Result<()> {
    if fs::symlink_metadata(entry_dir).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(());
    }
    let trash = Builder::new().prefix(TRASH_PREFIX).tempdir_in(entry_dir.parent().unwrap_or(Path::new(".")))?;
    fs::rename(entry_dir, trash.path().join("whole"))?;
    trash.close()
}

/// Removes the remains of killed processes from a directory: incomplete removals, and incomplete entries whose names
/// start with `staging_prefix`. Returns the number of bytes removed.
pub(crate) fn sweep(dir: &Path, staging_prefix: &str) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if [TRASH_PREFIX, staging_prefix].iter().any(|left| name.to_string_lossy().starts_with(left)) {
            bytes += size(&entry.path());
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    const FILES: usize = 3000;

    #[test]
    fn removal_never_exposes_partial_directory() {
        let parent_dir = tempfile::tempdir().expect("a directory");
        let entry_dir = parent_dir.path().join("place");
        fs::create_dir(&entry_dir).expect("a directory");
        for number in 0..FILES {
            fs::write(entry_dir.join(number.to_string()), "").expect("a file");
        }
        let watching = AtomicBool::new(false);
        let partially_visible = thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                loop {
                    let visible_files = fs::read_dir(&entry_dir).into_iter().flatten().flatten().count();
                    // A count that was taken during the rename does not matter.
                    let exists = entry_dir.is_dir();
                    if !exists || visible_files < FILES {
                        return exists;
                    }
                    watching.store(true, Ordering::Relaxed);
                }
            });
            while !watching.load(Ordering::Relaxed) && !watcher.is_finished() {
                thread::yield_now();
            }
            remove(&entry_dir).expect("the entries are removed");
            watcher.join().expect("an answer")
        });
        assert!(!partially_visible, "it was there in part");
        assert_eq!(fs::read_dir(parent_dir.path()).expect("a directory").count(), 0);
        remove(&entry_dir).expect("a missing entry is not an error");
    }

    #[test]
    fn sweeps_incomplete_entries() {
        let parent_dir = tempfile::tempdir().expect("a directory");
        for name in [".gone-x/whole/deep", ".new-x", ".other", "place"] {
            let dir = parent_dir.path().join(name);
            fs::create_dir_all(&dir).expect("a directory");
            fs::write(dir.join("file"), "1234").expect("a file");
        }
        assert_eq!(sweep(parent_dir.path(), ".new-").expect("the entries are removed"), 8);
        let mut left: Vec<_> =
            fs::read_dir(parent_dir.path()).expect("a directory").flatten().map(|e| e.file_name()).collect();
        left.sort();
        assert_eq!(left, [".other", "place"]);
        assert_eq!(sweep(&parent_dir.path().join("none"), ".new-").expect("a missing directory is not an error"), 0);
    }
}
