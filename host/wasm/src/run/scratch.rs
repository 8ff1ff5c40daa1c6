//! Private directories: one for a process, one below it for each instance, gone with them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use crate::error::WasmError;
use crate::run::changes::open_dir;
use crate::store::private_dir;
use crate::sys::open_itself;

/// The name of the file whose lock tells that a scratch directory's process lives.
const LOCK: &str = "lock";

/// The lock's name until it is held.
const UNLOCKED: &str = "lock.new";

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
    /// Directories of ended instances that nothing was ever put into.
    idle: Mutex<Vec<(String, Dir)>>,
    _lock: File,
}

/// Most untouched directories kept for later instances.
const MAX_IDLE: usize = 64;

impl Scratch {
    /// Makes this process's directory below `parent` and removes those of dead processes.
    pub(crate) fn new(parent: &Path) -> Result<Self, WasmError> {
        let failed = |e| WasmError::io("create a scratch directory in", parent)(e);
        private_dir(parent).map_err(failed)?;
        let dir = Dir::open_ambient_dir(parent, ambient_authority()).map_err(failed)?;
        sweep(&dir, parent);
        let made = tempfile::Builder::new().prefix("run-").tempdir_in(parent).map_err(failed)?;
        // The lock appears under its name only when it is held: another process that finds it free takes its owner
        // for dead.
        let unlocked = made.path().join(UNLOCKED);
        let lock = File::create(&unlocked).map_err(failed)?;
        lock.lock().map_err(failed)?;
        fs::rename(&unlocked, made.path().join(LOCK)).map_err(failed)?;
        let path = made.keep();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let here = dir.open_dir(&name).map_err(failed)?;
        Ok(Self { path, parent: dir, name, here, count: AtomicU64::new(0), idle: Mutex::default(), _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The directories of one instance, empty: untouched ones of an earlier instance, or new ones.
    pub(crate) fn instance(self: &Arc<Self>) -> Result<InstanceScratch, WasmError> {
        let idle = self.idle().pop();
        let (name, dir) = match idle {
            Some(untouched) => untouched,
            None => self.make()?,
        };
        let path = self.path.join(&name);
        Ok(InstanceScratch { process: self.clone(), name, path, dir: Some(dir), touched: false })
    }

    fn make(&self) -> Result<(String, Dir), WasmError> {
        let name = self.count.fetch_add(1, Ordering::Relaxed).to_string();
        let make = || -> io::Result<Dir> {
            self.here.create_dir(&name)?;
            let dir = self.here.open_dir(&name)?;
            dir.create_dir("work")?;
            dir.create_dir("tmp")?;
            Ok(dir)
        };
        let dir = make().map_err(WasmError::io("create", &self.path.join(&name)))?;
        Ok((name, dir))
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(String, Dir)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, name: &str, dir: &Dir) {
        // Plain removal first: most directories are empty.
        for inner in ["work", "tmp"] {
            let _ = dir.remove_dir(inner);
        }
        if self.here.remove_dir(name).is_err() {
            let _ = remove_tree(&self.here, name.as_ref());
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.remove_all();
    }
}

impl Scratch {
    /// Removes the directory with all that instances left untouched.
    pub(crate) fn remove_all(&self) {
        for (name, dir) in std::mem::take(&mut *self.idle()) {
            self.remove(&name, &dir);
        }
        // What cannot be removed now is removed by the next process: its lock goes with this one.
        let _ = self.here.remove_file(LOCK);
        let _ = self.parent.remove_dir(&self.name);
    }
}

/// The private directories of one instance; removed with all they hold when the value is dropped.
pub(crate) struct InstanceScratch {
    process: Arc<Scratch>,
    name: String,
    path: PathBuf,
    dir: Option<Dir>,
    touched: bool,
}

impl InstanceScratch {
    /// The host's path to one of the directories.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Says that something may have been put into the directories, so that they are not used again.
    pub(crate) fn touch(&mut self) {
        self.touched = true;
    }

    /// A handle on one of the directories, for putting something there.
    pub(crate) fn open(&mut self, name: &str) -> io::Result<Dir> {
        self.touched = true;
        self.dir()?.open_dir(name)
    }

    /// Makes one more directory.
    pub(crate) fn add(&mut self, name: &str) -> io::Result<()> {
        self.touched = true;
        self.dir()?.create_dir(name)
    }

    /// Makes a directory, and those that lead to it, for something to be seen at.
    pub(crate) fn make_point(&mut self, path: &Path) -> io::Result<()> {
        self.touched = true;
        self.dir()?.create_dir_all(path)
    }

    fn dir(&self) -> io::Result<&Dir> {
        self.dir.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Drop for InstanceScratch {
    fn drop(&mut self) {
        let Some(dir) = self.dir.take() else { return };
        let mut idle = self.process.idle();
        if !self.touched && idle.len() < MAX_IDLE {
            idle.push((std::mem::take(&mut self.name), dir));
            return;
        }
        drop(idle);
        self.process.remove(&self.name, &dir);
    }
}

fn sweep(dir: &Dir, parent: &Path) {
    for entry in dir.entries().into_iter().flatten().flatten() {
        let name = entry.file_name();
        let path = parent.join(&name);
        let dead = match open_regular(&path.join(LOCK)) {
            Ok(lock) => lock.try_lock().is_ok(),
            // A directory without a lock is being made, or was left by a process killed while it made or removed it.
            Err(_) => fs::metadata(&path)
                .and_then(|meta| meta.modified())
                .is_ok_and(|at| at.elapsed().is_ok_and(|age| age.as_secs() > 60)),
        };
        if dead {
            let _ = remove_tree(dir, &name);
        }
    }
}

/// Removes a directory with all that is in it, however deep: every directory below is moved up before it is emptied, so
/// that neither the stack nor descriptors nor the time for a step grow with the depth that a guest chose.
fn remove_tree(parent: &Dir, name: &OsStr) -> io::Result<()> {
    let top = open_dir(parent, name)?;
    let mut moved = 0u64;
    loop {
        let entries = names(&top)?;
        if entries.is_empty() {
            return parent.remove_dir(name);
        }
        for (entry, is_dir) in entries {
            if !is_dir {
                top.remove_file(&entry)?;
                continue;
            }
            let dir = open_dir(&top, &entry)?;
            for (inner, is_dir) in names(&dir)? {
                if is_dir {
                    move_up(&dir, &inner, &top, &mut moved)?;
                } else {
                    dir.remove_file(&inner)?;
                }
            }
            top.remove_dir(&entry)?;
        }
    }
}

/// Moves a directory to where nothing but an empty one is in its way.
fn move_up(dir: &Dir, name: &OsStr, top: &Dir, moved: &mut u64) -> io::Result<()> {
    loop {
        *moved += 1;
        match dir.rename(name, top, format!(".gone-{moved}")) {
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory
                ) => {}
            done => return done,
        }
    }
}

fn names(dir: &Dir) -> io::Result<Vec<(OsString, bool)>> {
    dir.entries()?.map(|entry| entry.and_then(|entry| Ok((entry.file_name(), entry.file_type()?.is_dir())))).collect()
}

/// Opens a file that stands there itself; never waits for a FIFO's other end.
fn open_regular(path: &Path) -> io::Result<File> {
    open_itself(fs::OpenOptions::new().read(true)).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_removed_however_deep_and_wide() {
        let parent = tempfile::tempdir().expect("a directory");
        let parent = Dir::open_ambient_dir(parent.path(), ambient_authority()).expect("it opens");
        parent.create_dir("tree").expect("a fresh directory takes folders");
        for branch in 0..3 {
            let mut dir = parent.open_dir("tree").expect("it was just made");
            for level in 0..3000 {
                let name = format!("{branch}");
                dir.create_dir(&name).expect("room for a folder");
                dir = dir.open_dir(&name).expect("it was just made");
                if level % 100 == 0 {
                    dir.create(".gone-1").expect("room for a file");
                    dir.create("file").expect("room for a file");
                }
            }
        }
        remove_tree(&parent, "tree".as_ref()).expect("all of it can be removed");
        assert!(!parent.exists("tree"));
    }
}
