//! Modules that belong to the program itself.

use std::path::PathBuf;

use codebox_core::{DirGrant, GuestPath, HostPath, Job, PathMap, Source};

/// Directories of this machine that a program in a guest imports from before the library.
///
/// They are searched only for a name that the library lacks, and only for the existence of a module.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LocalModules(Vec<PathBuf>);

impl LocalModules {
    /// Returns an empty set of directories.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// Returns the directory of a job's program, if it is granted, and the granted directories, which a program may add
    /// to its path. `map` maps the granted directories to guest paths.
    pub(crate) fn of(job: &Job, map: &PathMap<HostPath, GuestPath>) -> Self {
        let beside = beside(job, map);
        let granted = job.grants.dirs.iter().map(|DirGrant { host, .. }| host.to_path_buf());
        Self(beside.into_iter().chain(granted).collect())
    }

    /// Returns true if one of the directories contains a module with this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|dir| dir.join(format!("{name}.py")).exists() || dir.join(name).is_dir())
    }
}

fn beside(job: &Job, map: &PathMap<HostPath, GuestPath>) -> Option<PathBuf> {
    let Source::File { name, .. } = &job.source else { return None };
    Some(map.to_host(name).ok()?.parent()?.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_module_files_and_directories() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("torch.py"), "").expect("a file");
        std::fs::create_dir(dir.path().join("cv2")).expect("a directory");
        let neighbours = LocalModules(vec![dir.path().to_owned()]);
        assert!(neighbours.has("torch") && neighbours.has("cv2") && !neighbours.has("numba"));
        assert!(!LocalModules::none().has("torch"));
    }
}
