//! Private directories: one for a process, one below it for each instance, gone with them.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use crate::error::WasmError;
use crate::store::private_dir;

/// The name of the file whose lock tells that a scratch directory's process lives.
const LOCK: &str = "lock";

/// The directory of this process; removed when the value is dropped.
///
/// A process that is killed leaves its directory behind. Nobody holds its lock any more then, so the next process
/// that starts removes it.
pub(crate) struct Scratch {
    path: PathBuf,
    parent: Dir,
    name: String,
    here: Dir,
    count: AtomicU64,
    _lock: File,
}

impl Scratch {
    /// Makes this process's directory below `parent` and removes those of dead processes.
    pub(crate) fn new(parent: &Path) -> Result<Self, WasmError> {
        let failed = |e| WasmError::io("create a scratch directory in", parent)(e);
        private_dir(parent).map_err(failed)?;
        let dir = Dir::open_ambient_dir(parent, ambient_authority()).map_err(failed)?;
        sweep(&dir, parent);
        let made = tempfile::Builder::new().prefix("run-").tempdir_in(parent).map_err(failed)?;
        let lock = File::create(made.path().join(LOCK)).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let path = made.keep();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let here = dir.open_dir(&name).map_err(failed)?;
        Ok(Self { path, parent: dir, name, here, count: AtomicU64::new(0), _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directories of one instance.
    pub(crate) fn instance(self: &std::sync::Arc<Self>) -> Result<InstanceScratch, WasmError> {
        let name = self.count.fetch_add(1, Ordering::Relaxed).to_string();
        let path = self.path.join(&name);
        let make = || -> io::Result<Dir> {
            self.here.create_dir(&name)?;
            let dir = self.here.open_dir(&name)?;
            dir.create_dir("work")?;
            dir.create_dir("tmp")?;
            Ok(dir)
        };
        let dir = make().map_err(WasmError::io("create", &path))?;
        Ok(InstanceScratch { process: self.clone(), name, path, dir })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next process: its lock goes with this one.
        let _ = self.here.remove_file(LOCK);
        let _ = self.parent.remove_dir(&self.name);
    }
}

/// The private directories of one instance; removed with all they hold when the value is dropped.
pub(crate) struct InstanceScratch {
    process: std::sync::Arc<Scratch>,
    name: String,
    path: PathBuf,
    dir: Dir,
}

impl InstanceScratch {
    /// The host's path to one of the directories.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A handle on one of the directories.
    pub(crate) fn open(&self, name: &str) -> io::Result<Dir> {
        self.dir.open_dir(name)
    }

    /// Makes one more directory.
    pub(crate) fn add(&self, name: &str) -> io::Result<Dir> {
        self.dir.create_dir(name)?;
        self.dir.open_dir(name)
    }
}

impl Drop for InstanceScratch {
    fn drop(&mut self) {
        // Plain removal first: most jobs leave both directories empty.
        for name in ["work", "tmp"] {
            let _ = self.dir.remove_dir(name);
        }
        if self.process.here.remove_dir(&self.name).is_err() {
            let _ = self.process.here.remove_dir_all(&self.name);
        }
    }
}

fn sweep(dir: &Dir, parent: &Path) {
    for entry in dir.entries().into_iter().flatten().flatten() {
        let name = entry.file_name();
        let path = parent.join(&name);
        let dead = match File::open(path.join(LOCK)) {
            Ok(lock) => lock.try_lock().is_ok(),
            // A directory without a lock is being made, or was left by a process killed while it made or removed it.
            Err(_) => fs::metadata(&path)
                .and_then(|meta| meta.modified())
                .is_ok_and(|at| at.elapsed().is_ok_and(|age| age.as_secs() > 60)),
        };
        if dead {
            let _ = dir.remove_dir_all(&name);
        }
    }
}
