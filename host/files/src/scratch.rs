//! Private directories: one for each process, and one below it for each instance.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use crate::error::FilesError;
use crate::private::private_dir;
use crate::remove::remove_tree;

mod instance;
mod sweep;

pub use instance::InstanceScratch;
pub use sweep::is_in_use;
use sweep::sweep;

/// The name of the file whose lock is held as long as the process of a scratch directory lives.
const LOCK: &str = "lock";

/// The name of the lock file until its lock is held.
const UNLOCKED: &str = "lock.new";

/// The scratch directory of this process, which is removed on drop.
///
/// A killed process leaves its directory behind without a held lock, and the next process that starts removes it.
pub struct Scratch {
    path: PathBuf,
    parent: Dir,
    name: String,
    own_dir: Dir,
    /// The directories of ended instances that were never written to.
    idle: Mutex<Vec<(String, Dir)>>,
    _lock: File,
}

/// The largest number of unused directories that are kept for later instances.
const MAX_IDLE: usize = 64;

impl Scratch {
    /// Creates this process's directory below `parent`, and removes the directories of dead processes.
    ///
    /// # Errors
    /// [`FilesError::Io`] if the directory cannot be created.
    pub fn new(parent: &Path) -> Result<Self, FilesError> {
        let to_error = |e| FilesError::io("create a scratch directory in", parent)(e);
        private_dir(parent).map_err(to_error)?;
        let dir = Dir::open_ambient_dir(parent, ambient_authority()).map_err(to_error)?;
        sweep(&dir, parent);
        let temp_dir = tempfile::Builder::new().prefix("run-").tempdir_in(parent).map_err(to_error)?;
        // The lock file gets its final name only after its lock is held, because other processes treat a free lock as a
        // sign of a dead process.
        let unlocked = temp_dir.path().join(UNLOCKED);
        let lock = File::create(&unlocked).map_err(to_error)?;
        lock.lock().map_err(to_error)?;
        fs::rename(&unlocked, temp_dir.path().join(LOCK)).map_err(to_error)?;
        let path = temp_dir.keep();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let own_dir = dir.open_dir(&name).map_err(to_error)?;
        Ok(Self { path, parent: dir, name, own_dir, idle: Mutex::default(), _lock: lock })
    }

    /// Returns the host path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns empty directories for one instance: unused ones of an earlier instance, or new ones.
    ///
    /// # Errors
    /// [`FilesError::Io`] if they cannot be created.
    pub fn instance(self: &Arc<Self>) -> Result<InstanceScratch, FilesError> {
        let idle = self.idle().pop();
        let (name, dir) = match idle {
            Some(unused) => unused,
            None => self.make()?,
        };
        let path = self.path.join(&name);
        Ok(InstanceScratch { process: Some(self.clone()), name, path, dir: Some(dir), dirty: false })
    }

    fn make(&self) -> Result<(String, Dir), FilesError> {
        // A confined process may remove empty directories below the parent but cannot list them. Random names protect
        // the directories of other processes.
        let name = format!("{:032x}", rand::random::<u128>());
        let make = || -> io::Result<Dir> {
            self.own_dir.create_dir(&name)?;
            let dir = self.own_dir.open_dir(&name)?;
            dir.create_dir("work")?;
            dir.create_dir("tmp")?;
            Ok(dir)
        };
        let dir = make().map_err(FilesError::io("create", &self.path.join(&name)))?;
        Ok((name, dir))
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(String, Dir)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, name: &str, dir: &Dir) {
        // Most directories are empty, so a plain removal is tried first.
        for inner in ["work", "tmp"] {
            let _ = dir.remove_dir(inner);
        }
        if self.own_dir.remove_dir(name).is_err() {
            let _ = remove_tree(&self.own_dir, name.as_ref());
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.remove_all();
    }
}

impl Scratch {
    /// Removes the directory, including unused directories of instances.
    pub fn remove_all(&self) {
        for (name, dir) in std::mem::take(&mut *self.idle()) {
            self.remove(&name, &dir);
        }
        // The lock ends with this process, so the next process removes the entries that remain.
        let _ = self.own_dir.remove_file(LOCK);
        let _ = self.parent.remove_dir(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use anyhow::Result;

    use super::*;

    #[test]
    fn instance_has_its_own_directories() -> Result<()> {
        let home = tempfile::tempdir()?;
        let scratch = Arc::new(Scratch::new(&home.path().join("scratch"))?);
        let mut instance = scratch.instance()?;
        instance.open("work")?.write("file", "x")?;
        instance.add("control")?;
        let file = instance.put("request.json", b"{}")?;
        instance.put("request.json", b"{\"again\":1}")?;
        assert_eq!(fs::read(&file)?, b"{\"again\":1}");
        assert!(instance.path("control").is_dir() && instance.path("tmp").is_dir());
        let other = scratch.instance()?;
        assert_ne!(instance.path("work"), other.path("work"));
        let gone = instance.path("work");
        drop(instance);
        assert!(!gone.exists() && !file.exists());
        Ok(())
    }

    #[test]
    fn instance_names_are_unpredictable() -> Result<()> {
        let home = tempfile::tempdir()?;
        let scratch = Arc::new(Scratch::new(home.path())?);
        let instances = (0..50).map(|_| scratch.instance()).collect::<Result<Vec<_>, _>>()?;
        let name = |instance: &InstanceScratch| -> Option<String> {
            Some(instance.path("work").parent()?.file_name()?.to_str()?.to_owned())
        };
        let names: HashSet<String> = instances.iter().filter_map(name).collect();
        assert_eq!(names.len(), instances.len());
        assert!(names.iter().all(|name| name.len() == 32), "{names:?}");
        Ok(())
    }

    #[test]
    fn sweeps_only_directories_of_dead_processes() -> Result<()> {
        let home = tempfile::tempdir()?;
        let first = Scratch::new(home.path())?;
        let second = Scratch::new(home.path())?;
        assert!(first.path().is_dir() && second.path().is_dir());
        // A killed process leaves a directory whose lock is free.
        let dead = home.path().join("run-dead");
        fs::create_dir_all(dead.join("0/work/left"))?;
        fs::write(dead.join(LOCK), "")?;
        let third = Scratch::new(home.path())?;
        assert!(!dead.exists());
        assert!(first.path().is_dir() && second.path().is_dir() && third.path().is_dir());
        Ok(())
    }
}
