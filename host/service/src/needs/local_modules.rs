//! Modules that belong to the program itself.

use std::collections::BTreeSet;
use std::path::PathBuf;

use codebox_core::path::MappedPath as _;
use codebox_core::{DirGrant, GuestPath, HostPath, Job, PathMap, Source};

/// Directories of this machine that a program in a guest imports from before the library, and the files of its project.
///
/// They are searched only for a name that the library lacks, and only for the existence of a module.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LocalModules {
    dirs: Vec<PathBuf>,
    /// Names of the modules in the project's own directory, in its `src`, and beside the program.
    names: BTreeSet<String>,
}

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
        Self { dirs: beside.into_iter().chain(granted).collect(), names: names(job) }
    }

    /// Returns true if one of the directories contains a module with this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
            || self.dirs.iter().any(|dir| dir.join(format!("{name}.py")).exists() || dir.join(name).is_dir())
    }
}

fn beside(job: &Job, map: &PathMap<HostPath, GuestPath>) -> Option<PathBuf> {
    let Source::File { name, .. } = &job.source else { return None };
    Some(map.to_host(name).ok()?.parent()?.to_path_buf())
}

/// Returns the names of the modules among the files that a job is given.
fn names(job: &Job) -> BTreeSet<String> {
    let program = match &job.source {
        Source::File { name, .. } => Some(name),
        _ => None,
    };
    let dirs = [Some(GuestPath::work()), GuestPath::work().child("src").ok(), program.and_then(GuestPath::parent)];
    let mut names = BTreeSet::new();
    for dir in dirs.iter().flatten() {
        let depth = dir.components().count();
        let files = job.files.iter().filter(|file| Some(&file.path) != program && file.path.is_within(dir));
        for first in files.filter_map(|file| file.path.components().nth(depth)) {
            names.insert(first.strip_suffix(".py").unwrap_or(first).to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use codebox_core::{InputFile, Language};

    use super::*;

    #[test]
    fn finds_module_files_and_directories() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("torch.py"), "").expect("a file");
        std::fs::create_dir(dir.path().join("cv2")).expect("a directory");
        let neighbours = LocalModules { dirs: vec![dir.path().to_owned()], names: BTreeSet::new() };
        assert!(neighbours.has("torch") && neighbours.has("cv2") && !neighbours.has("numba"));
        assert!(!LocalModules::none().has("torch"));
    }

    #[test]
    fn files_of_a_project_are_modules() {
        let file = |path: &str| InputFile::new(GuestPath::new(path).expect("a path"), Vec::new());
        let name = GuestPath::new("/work/app/main.py").expect("a path");
        let source = Source::File { argv0: "app/main.py".to_owned(), name, text: Vec::new() };
        let files =
            ["/work/app/main.py", "/work/app/cv2.py", "/work/torch/a.py", "/work/src/numba/b.py"].map(file).to_vec();
        let names = names(&Job { files, ..Job::new(source, Language::Python) });
        for name in ["cv2", "torch", "numba"] {
            assert!(names.contains(name), "{name}");
        }
        assert!(!names.contains("main") && !names.contains("a"), "{names:?}");
    }
}
