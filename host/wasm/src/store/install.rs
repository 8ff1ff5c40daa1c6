//! Installs a runtime from its unpacked package.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use codebox_core::{Preparation, Progress};
use codebox_files::private_dir;

use crate::error::WasmError;
use crate::store::entry::{CHOSEN_FILE, data_dir};
use crate::store::installation::InstalledDirs;
use crate::store::lock::StoreLock;
use crate::store::manifest::{MODULE_FILE, Manifest};
use crate::store::seal::Seal;
use crate::store::{RuntimeState, Store};
use crate::sys::make_private;

impl Store {
    /// Makes the required contents of the runtime ready to use, and fetches the runtime if it is missing.
    ///
    /// `fetch` is called at most once, with the directory into which the package has to be unpacked. If another process
    /// does the same, the call waits for that process and uses its result.
    ///
    /// # Errors
    /// The error of `fetch`, or the error of the installation. No incomplete runtime remains.
    pub fn ensure<E: From<WasmError>>(
        &self,
        required: Preparation<'_>,
        progress: &dyn Progress,
        fetch: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.state(required) == RuntimeState::Ready {
            return Ok(());
        }
        self.make_dirs()?;
        let _lock = StoreLock::acquire(&self.dirs.data, || progress.note("waiting for another process"))?;
        match self.state(required) {
            RuntimeState::Ready => return Ok(()),
            RuntimeState::Unprepared => {}
            RuntimeState::Damaged(why) => return Err(WasmError::damaged(&self.runtime_dir(), why).into()),
            RuntimeState::Missing => self.install(progress, fetch)?,
        }
        Ok(self.prepare(required, progress)?)
    }

    /// Installs the runtime again, regardless of its state, and prepares all of it.
    ///
    /// # Errors
    /// As for [`ensure`](Self::ensure). An installed runtime stays unchanged if the new one cannot be fetched.
    pub fn reinstall<E: From<WasmError>>(
        &self,
        progress: &dyn Progress,
        fetch: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<(), E> {
        self.make_dirs()?;
        let _lock = StoreLock::acquire(&self.dirs.data, || progress.note("waiting for another process"))?;
        self.invalidate();
        self.install(progress, fetch)?;
        let chosen = self.own_runtime_dir().join(CHOSEN_FILE);
        fs::write(&chosen, "").map_err(WasmError::io("write", &chosen))?;
        // This store may have found the runtime in the installation.
        let own = Self::new(self.engine.clone(), self.dirs.clone(), (*self.spec).clone(), self.parts);
        remove_dir(&own.prepared_dir())?;
        Ok(own.prepare(Preparation::Complete, progress)?)
    }

    /// Removes the runtime, its code and its images, but no files of an installation. Returns true if any of them existed.
    ///
    /// # Errors
    /// [`WasmError::Io`] if a directory cannot be removed.
    pub fn remove(&self) -> Result<bool, WasmError> {
        if !self.own_runtime_dir().exists() && !self.prepared_dir().exists() {
            return Ok(false);
        }
        let _lock = StoreLock::acquire(&self.dirs.data, || ())?;
        self.invalidate();
        remove_dir(&self.own_runtime_dir())?;
        let prepared = self.dirs.cache.join("prepared");
        let Ok(entries) = fs::read_dir(&prepared) else { return Ok(true) };
        let prefix = format!("{}-", self.spec.folder());
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                remove_dir(&entry.path())?;
            }
        }
        Ok(true)
    }

    /// Checks the digest of every installed and prepared file. Returns the number of files.
    ///
    /// # Errors
    /// The error of the first file that differs from the installed one.
    pub fn verify(&self) -> Result<usize, WasmError> {
        let mut checked = self.installed().map_or(Ok(0), InstalledDirs::verify)?;
        for dir in [self.own_runtime_dir(), self.prepared_dir()] {
            let Some(manifest) = Manifest::read(&dir)? else { continue };
            // The files of an installation are checked above.
            for (name, seal) in manifest.seals.iter().filter(|(_, seal)| seal.installed_in().is_none()) {
                seal.verify(&dir, name)?;
                checked += 1;
            }
        }
        Ok(checked)
    }

    fn install<E: From<WasmError>>(
        &self,
        progress: &dyn Progress,
        fetch: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<(), E> {
        let target = self.own_runtime_dir();
        let parent = self.dirs.data.join("runtimes");
        private_dir(&parent).map_err(WasmError::io("create", &parent))?;
        remove_incomplete(&parent);
        let temp = tempfile::Builder::new().prefix(INCOMPLETE_PREFIX).tempdir_in(&parent);
        let temp = temp.map_err(WasmError::io("create a directory in", &parent))?;
        let package = temp.path().join("package");
        match self.parts.module {
            None => fetch(&package)?,
            Some(module) => {
                let written =
                    private_dir(&package).and_then(|()| fs::write(package.join(&self.spec.module), module.content()?));
                written.map_err(WasmError::io("write", &package))?;
            }
        }
        progress.note(&format!("unpacking {}", self.spec.name));
        let folder = temp.path().join("runtime");
        self.lay_out_package(&package, &folder)?;
        remove_dir(&target)?;
        fs::rename(&folder, &target).map_err(WasmError::io("install", &target))?;
        Ok(())
    }

    /// Arranges an unpacked package as guests and later preparations need it.
    fn lay_out_package(&self, package: &Path, folder: &Path) -> Result<(), WasmError> {
        let lib = folder.join("lib");
        private_dir(&lib).map_err(WasmError::io("create", &lib))?;
        rename(&package.join(&self.spec.module), &folder.join(MODULE_FILE))?;
        let mut sealed = vec![MODULE_FILE.to_owned()];
        if let Some((member, name)) = &self.spec.library {
            let library = lib.join(name);
            rename(&package.join(member), &library)?;
            for (index, archive) in self.spec.data.iter().enumerate() {
                extract_nested_zip(&library, &archive.member, &folder.join(data_dir(index)))?;
            }
            sealed.push(format!("lib/{name}"));
        }
        rename(package, &folder.join("package"))?;
        make_root(&folder.join("root"))?;
        let mut manifest = Manifest::default();
        for sealed in sealed {
            let path = folder.join(&sealed);
            make_private(&path).map_err(WasmError::io("protect", &path))?;
            manifest.seals.insert(sealed.clone(), Seal::compute(&folder.join(&sealed))?);
        }
        manifest.write(folder)
    }
}

/// Makes the directory that guests see as `/`.
pub(super) fn make_root(root: &Path) -> Result<(), WasmError> {
    ROOT_MOUNT_POINTS
        .iter()
        .map(|place| root.join(place))
        .try_for_each(|place| private_dir(&place).map_err(WasmError::io("create", &place)))
}

/// The empty directories below a guest's root for mounts and for virtual devices.
pub(crate) const ROOT_MOUNT_POINTS: [&str; 5] = ["work", "tmp", "run/codebox", "usr/local/lib", "dev"];

/// Prefix of the names of incomplete directories.
pub(super) const INCOMPLETE_PREFIX: &str = ".new-";

/// Removes incomplete files and directories of killed processes. The lock shows that no other process is working on them.
pub(super) fn remove_incomplete(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(INCOMPLETE_PREFIX) {
            let path = entry.path();
            let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        }
    }
}

/// Number of directories of other versions to keep: two versions of codebox may share a home.
const OTHER_VERSIONS_KEPT: usize = 1;

/// Removes the directories of other versions of codebox in the same parent directory, except for the latest one.
///
/// A guest that still runs from a removed directory keeps its open files. A guest that starts later makes the directory
/// again.
pub(super) fn remove_other_versions(current: &Path, prefix: &str) {
    let Some(entries) = current.parent().and_then(|parent| fs::read_dir(parent).ok()) else { return };
    let mut others: Vec<_> = entries
        .flatten()
        .filter(|entry| entry.path() != current && entry.file_name().to_string_lossy().starts_with(prefix))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    others.sort();
    let kept = others.len().saturating_sub(OTHER_VERSIONS_KEPT);
    for (_, path) in &others[..kept] {
        // If the removal fails now, the next version tries it again.
        let _ = fs::remove_dir_all(path);
    }
}

pub(super) fn remove_dir(path: &Path) -> Result<(), WasmError> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(WasmError::io("remove", path)(e)),
        _ => Ok(()),
    }
}

pub(super) fn rename(from: &Path, to: &Path) -> Result<(), WasmError> {
    fs::rename(from, to).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => WasmError::damaged(from, "not found in the package"),
        _ => WasmError::Io { doing: "move", path: from.to_owned(), source },
    })
}

/// Unpacks a zip that is a member of another zip.
fn extract_nested_zip(outer: &Path, member: &str, into: &Path) -> Result<(), WasmError> {
    let broken = |e: zip::result::ZipError| WasmError::damaged(outer, format!("{member}: {e}"));
    let file = File::open(outer).map_err(WasmError::io("open", outer))?;
    let mut archive = zip::ZipArchive::new(file).map_err(broken)?;
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut archive.by_name(member).map_err(broken)?, &mut bytes)
        .map_err(WasmError::io("read", outer))?;
    let mut inner = zip::ZipArchive::new(io::Cursor::new(bytes)).map_err(broken)?;
    inner.extract(into).map_err(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_latest_other_version() {
        let parent = tempfile::tempdir().expect("a directory");
        let dir = |name: &str| parent.path().join(name);
        for (age, name) in
            ["python-1-a", "python-1-b", "python-1-c", "python-2-d", "pythonic", "lua-1"].iter().enumerate()
        {
            fs::create_dir(dir(name)).expect("the directory is created");
            let at = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(age as u64 * 60);
            File::open(dir(name)).and_then(|dir| dir.set_modified(at)).expect("its time can be set");
        }
        remove_other_versions(&dir("python-1-a"), "python-");
        let mut left: Vec<_> =
            fs::read_dir(parent.path()).expect("a directory").flatten().map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, ["lua-1", "python-1-a", "python-2-d", "pythonic"]);
    }
}
