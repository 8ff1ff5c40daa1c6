//! Projects: programs of more than one file, which are copied to the guest's working directory.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use codebox_core::path::MappedPath as _;
use codebox_core::{Access, DirGrant, DirGrantSpec, GuestPath, HostPath, InputFile, OutGuard, ResultKind};
use codebox_files::{
    Dir, LeftOut, LeftOutReason, ProjectError, ProjectFile, ProjectFiles, excluded, open_dir_without_symlinks,
    read_project,
};

use super::denied::Denied;
use super::dirs;
use super::host_environment::{HostEnvironment, absolute};
use super::policy::Policy;

/// Files that list the packages of a project, and their exact versions.
const MANIFESTS: [&str; 6] =
    ["pyproject.toml", "uv.lock", "pylock.toml", "requirements.txt", "package.json", "package-lock.json"];

/// Greatest size of one of them in bytes, because a parsed text takes many times its size in memory.
const MAX_MANIFEST: usize = 4 << 20;

/// Project of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Directory of the project, free of links.
    pub host: HostPath,
    /// Number of files that the program gets.
    pub files: usize,
    /// Entries of the directory that are not copied.
    pub left_out: Vec<LeftOut>,
    /// Files that list packages, in the project's own directory.
    pub manifests: Vec<Manifest>,
}

/// File of a project that lists packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Name of the file.
    pub name: &'static str,
    /// Path of the file on this machine, for messages.
    pub path: PathBuf,
    /// Content of the file.
    pub text: String,
}

impl Project {
    /// Returns the file with this name that lists packages.
    #[must_use]
    pub fn manifest(&self, name: &str) -> Option<&Manifest> {
        self.manifests.iter().find(|manifest| manifest.name == name)
    }

    /// Returns the treatment of files that a directory already has to which files of the program are copied.
    pub(super) fn guard(&self, out: &HostPath) -> OutGuard {
        match (self.host.is_within(out), out.is_within(&self.host)) {
            (true, _) => OutGuard::Existing,
            (false, true) => OutGuard::Names,
            (false, false) => OutGuard::None,
        }
    }

    /// Returns the path in the guest of a file or directory of this machine that is below the project.
    pub(super) fn guest_path(&self, canonical: &Path) -> Option<GuestPath> {
        let path = HostPath::native(canonical).ok()?;
        if !path.is_within(&self.host) {
            return None;
        }
        let mut below = path.components().skip(self.host.components().count());
        below.try_fold(GuestPath::work(), |path, part| path.child(part).ok())
    }

    /// Returns the working directory of a program: that of this process if it is below the project, and the project itself otherwise.
    pub(super) fn work_dir(&self, host_environment: &dyn HostEnvironment) -> GuestPath {
        let current = host_environment.current_dir().and_then(|dir| dir.canonicalize()).ok();
        current.and_then(|dir| self.guest_path(&dir)).unwrap_or_else(GuestPath::work)
    }
}

/// Reads the project at `path`, which is given as typed, and returns it with its files. Files that `granted` directories hide are not
/// among them.
pub(super) fn admit(
    path: &Path,
    granted: &[DirGrant],
    policy: &Policy,
    host_environment: &dyn HostEnvironment,
) -> Result<(Project, Vec<InputFile>), Denied> {
    let shown = path.display().to_string();
    let refused =
        |detail: String, fix: &str| Denied::new(ResultKind::PathRejected, "copy the project", &shown, detail, fix);
    let work = GuestPath::work();
    if granted.iter().any(|dir| dir.guest == work) {
        let fix = "remove one of them, or grant the directory at another guest path";
        return Err(refused("a directory is granted at /work, where the project is".to_owned(), fix));
    }
    // The rules for directories that are granted read-only apply.
    let Some(host) = path.to_str().map(str::to_owned) else {
        return Err(refused("its name is not UTF-8".to_owned(), "rename it"));
    };
    let spec = DirGrantSpec { host, guest: work.clone(), access: Access::ReadOnly };
    let admitted = dirs::admit(vec![spec], policy, host_environment)?;
    let Some(DirGrant { host, .. }) = admitted.into_iter().next() else {
        return Err(refused("it was not admitted".to_owned(), "name another directory"));
    };
    let place = host.to_path_buf();
    let home = host_environment.env_var("HOME").and_then(|home| Path::new(&home).canonicalize().ok());
    if home.is_some_and(|home| home.starts_with(&place)) {
        return Err(refused("it is the home directory, or contains it".to_owned(), "name a directory in it"));
    }
    let fix = "name a directory with fewer files, list files in .gitignore, or grant it with --dir";
    let read = || -> Result<ProjectFiles, ProjectError> {
        read_project(&open_dir_without_symlinks(&place)?, &directories_above(&place)?)
    };
    let ProjectFiles { files, left_out } = read().map_err(|error| refused(error.to_string(), fix))?;
    if let Some(file) =
        files.iter().find(|file| file.content.len() > MAX_MANIFEST && MANIFESTS.contains(&file.path.as_str()))
    {
        let detail = format!("{} is larger than {} MiB", file.path, MAX_MANIFEST >> 20);
        return Err(refused(detail, "correct the file, or move it out of the project"));
    }
    let is_manifest = |entry: &&LeftOut| {
        let reasons =
            matches!(entry.reason, LeftOutReason::Link | LeftOutReason::Special | LeftOutReason::Unreadable(_));
        reasons && MANIFESTS.contains(&entry.path.as_str())
    };
    if let Some(LeftOut { path, reason }) = left_out.iter().find(is_manifest) {
        let detail = format!("{path} lists packages, and cannot be read: {reason}");
        return Err(refused(detail, "replace it with a file, or list it in .gitignore"));
    }
    let manifests = MANIFESTS.iter().filter_map(|name| {
        let file = files.iter().find(|file| file.path == *name)?;
        let text = String::from_utf8_lossy(&file.content).into_owned();
        Some(Manifest { name, path: path.join(name), text })
    });
    let manifests = manifests.collect();
    let is_hidden = |path: &GuestPath| granted.iter().any(|dir| path.is_within(&dir.guest));
    let mut inputs = Vec::with_capacity(files.len());
    for ProjectFile { path, content, executable } in files {
        let path = work.join(&path).map_err(|error| refused(format!("{path}: {}", error.rule), "rename the file"))?;
        if let Some(dir) = granted.iter().find(|dir| dir.guest != path && dir.guest.is_within(&path)) {
            let detail = format!("a directory is granted at {}, below its file {path}", dir.guest);
            return Err(refused(detail, "grant the directory at another path"));
        }
        if !is_hidden(&path) {
            inputs.push(InputFile { path, content, executable });
        }
    }
    Ok((Project { host, files: inputs.len(), left_out, manifests }, inputs))
}

/// Returns true for a file that is reached through a directory, and that a link leads to out of it.
#[must_use]
pub fn leads_out(dir: &Path, file: &Path) -> bool {
    let (Ok(dir), Ok(place)) = (dir.canonicalize(), std::path::absolute(file)) else { return false };
    if file.canonicalize().is_ok_and(|file| file.starts_with(&dir)) {
        return false;
    }
    let mut plain = PathBuf::new();
    for part in place.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain.ancestors().skip(1).any(|place| place.canonicalize().is_ok_and(|place| place.starts_with(&dir)))
}

/// Returns true for a name that no copy of a project has, such as that of a file with secrets.
#[must_use]
pub fn is_left_out(name: &str) -> bool {
    excluded(name, false).or_else(|| excluded(name, true)).is_some()
}

/// Returns the directories of the repository above a directory, the outermost first, each with the name that leads on to it. Without a
/// repository there are none.
fn directories_above(place: &Path) -> Result<Vec<(Dir, OsString)>, ProjectError> {
    let is_top = |dir: &&Path| dir.join(".git").symlink_metadata().is_ok();
    let Some(top) = place.ancestors().find(is_top) else { return Ok(Vec::new()) };
    let inner = place.ancestors().take_while(|dir| *dir != top);
    let mut above = Vec::new();
    for dir in inner {
        if let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) {
            above.push((open_dir_without_symlinks(parent)?, name.to_owned()));
        }
    }
    above.reverse();
    Ok(above)
}

/// Returns the directory of a project that is named in place of a program.
pub(super) fn named_directory(path: &Path, host_environment: &dyn HostEnvironment) -> Option<PathBuf> {
    absolute(path, host_environment).ok().filter(|path| path.is_dir())
}

/// Program that a directory of a project starts with.
pub(super) struct Entry {
    /// Path of the file.
    pub name: GuestPath,
    /// Content of the file.
    pub text: Vec<u8>,
}

/// Finds the program of the directory at `dir`: its `__main__.py`, or the `main` of its `package.json`. `shown` is the directory as typed.
pub(super) fn entry(dir: &GuestPath, files: &[InputFile], shown: &str) -> Result<Entry, Denied> {
    let file = |path: &str| {
        let path = dir.join(path).ok()?;
        files.iter().find(|file| file.path == path)
    };
    let found = file("__main__.py").or_else(|| {
        let main = file("package.json").map(|file| main_of(&file.content))?;
        let main = main.as_deref().map_or("", |main| main.trim_start_matches("./").trim_end_matches('/'));
        let names = ["", ".js", ".mjs", ".cjs", ".ts", "/index.js"].map(|end| format!("{main}{end}"));
        let names = if main.is_empty() { Vec::new() } else { names.to_vec() };
        names.iter().find_map(|name| file(name)).or_else(|| file("index.js"))
    });
    found.map(|file| Entry { name: file.path.clone(), text: file.content.clone() }).ok_or_else(|| {
        let detail = "it is a directory without __main__.py, and without a package.json that names its main file";
        let fix = format!("name a file in it: codebox run --project {shown} FILE");
        Denied::new(ResultKind::InvalidRequest, "run", shown, detail, fix)
    })
}

/// Returns the `main` of a `package.json`.
fn main_of(text: &[u8]) -> Option<String> {
    let package: serde_json::Value = serde_json::from_slice(text).ok()?;
    Some(package.get("main")?.as_str()?.to_owned())
}

/// Adds the directory `src` of a Python project to the module search path, because the project is not installed.
pub(super) fn add_sources(files: &[InputFile], env: &mut BTreeMap<String, String>) {
    const SOURCES: &str = "/work/src";
    let has = |prefix: &str| files.iter().any(|file| file.path.as_str().starts_with(prefix));
    if has("/work/pyproject.toml") && has("/work/src/") {
        env.entry("PYTHONPATH".to_owned()).or_insert_with(|| SOURCES.to_owned());
    }
}
