//! The packages that a job requests: by options, requirements files and the metadata of its script.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::lock::{Lock, LockError};
use crate::project_files::{parse_pylock, parse_pyproject, parse_uv_lock};
use crate::requirement::Requirement;
use crate::requirements_file::{
    LineError, ListedRequirements, MAX_REQUIREMENTS, parse_requirements_file, parse_script_metadata, version_satisfies,
};
use crate::resolve::Resolved;
use crate::target::Target;
use crate::wheel::Wheel;
use codebox_core::{PackageManager, ResultKind, RunnerError};
use codebox_service::config::Packages;
use codebox_service::{Admitted, Manifest, Project, lock_path};

/// The largest requirements or lock file, in bytes.
const MAX_FILE_SIZE: u64 = 4 << 20;

/// The packages that a job requests, or only the version of the interpreter.
#[derive(Default, Clone)]
pub(super) struct PackageRequest {
    pub requirements: Vec<Requirement>,
    pub requires_python: Option<String>,
    pub notes: Vec<String>,
    /// The hashes of the files that may be installed, by package, if a requirements file lists them.
    hashes: BTreeMap<String, BTreeSet<String>>,
    /// Those of the lock of a project, which do not apply to built-in packages.
    locked_hashes: BTreeMap<String, BTreeSet<String>>,
    /// The lock of the script, with its path.
    pub lock: Option<(PathBuf, Lock)>,
}

impl PackageRequest {
    /// Collects the requests of a job, including the lock of its script. Returns `None` if the job has no requests.
    pub(super) fn of(admitted: &Admitted) -> Result<Option<Self>, RunnerError> {
        let job = admitted.job();
        let request = Self::without_lock(admitted)?;
        let Some(script) = admitted.script() else { return Ok(request) };
        let file = lock_path(script);
        match request {
            Some(mut request) if !request.requirements.is_empty() => {
                if lock_exists(&file)? {
                    let lock = Lock::parse(&read_text(&file)?).map_err(|error| lock_error(&file, &error))?;
                    lock.check(&request.requirements).map_err(|error| lock_error(&file, &error))?;
                    request.lock = Some((file, lock));
                }
                Ok(Some(request))
            }
            request => {
                if job.language.package_manager() == Some(PackageManager::Pip) {
                    reject_unused_lock(&file)?;
                }
                Ok(request)
            }
        }
    }

    /// Collects the requests of a job without its lock.
    pub(super) fn without_lock(admitted: &Admitted) -> Result<Option<Self>, RunnerError> {
        let job = admitted.job();
        let mut request = Self::default();
        let refused = |error: &dyn std::fmt::Display| RunnerError::new(ResultKind::InvalidRequest, error.to_string());
        if job.language.package_manager() == Some(PackageManager::Pip)
            && let Some(text) = job.source.text()
        {
            let shown = job.source.argv0();
            let bad = |LineError { line, reason }| refused(&format!("{shown}: line {line}: {reason}"));
            if let Some(metadata) = parse_script_metadata(text).map_err(bad)? {
                request.requirements = metadata.dependencies;
                request.requires_python = metadata.requires_python;
                let ignored_note = |table| format!("{shown}: [{table}] is ignored: a script cannot set it");
                request.notes = metadata.ignored.into_iter().map(ignored_note).collect();
            }
        }
        check_count(job.packages.len())?;
        for text in &job.packages {
            request.requirements.push(text.parse().map_err(|error| refused(&error))?);
        }
        for file in admitted.requirements() {
            let bad = |LineError { line, reason }| refused(&format!("{}: line {line}: {reason}", file.display()));
            let ListedRequirements { requirements, hashes } =
                parse_requirements_file(&read_text(file)?).map_err(bad)?;
            request.requirements.extend(requirements);
            for (name, hashes) in hashes {
                request.hashes.entry(name).or_default().extend(hashes);
            }
        }
        if job.language.package_manager() == Some(PackageManager::Pip)
            && let Some(project) = admitted.project()
            && admitted.requirements().is_empty()
        {
            request.add_project(project)?;
        }
        if request.requirements.is_empty() {
            return Ok(request.requires_python.is_some().then_some(request));
        }
        if job.language.package_manager() != Some(PackageManager::Pip) {
            let line = format!("packages are not supported for {}: only for Python and JavaScript", job.language);
            return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("remove --with and -r"));
        }
        let mut seen = BTreeSet::new();
        request.requirements.retain(|one| seen.insert(one.to_string()));
        check_count(request.requirements.len())?;
        Ok(Some(request))
    }

    /// Adds the packages of a project: the exact ones of its lock, or those that its `pyproject.toml` or `requirements.txt` lists.
    fn add_project(&mut self, project: &Project) -> Result<(), RunnerError> {
        let invalid = |manifest: &Manifest, reason: String| {
            let line = format!("cannot read {}: {reason}", manifest.path.display());
            RunnerError::new(ResultKind::InvalidRequest, line).with_fix("correct it, or name packages with -r")
        };
        let listed = match project.manifest("pyproject.toml") {
            Some(manifest) => {
                let parsed = parse_pyproject(&manifest.text).map_err(|reason| invalid(manifest, reason))?;
                self.requires_python = self.requires_python.take().or(parsed.requires_python);
                parsed.dependencies
            }
            None => None,
        };
        let lock = project.manifest("uv.lock").or_else(|| project.manifest("pylock.toml"));
        if let Some(manifest) = lock {
            let locked = match manifest.name {
                "uv.lock" => parse_uv_lock(&manifest.text),
                _ => parse_pylock(&manifest.text),
            };
            let locked = locked.map_err(|reason| invalid(manifest, reason))?;
            let is_locked = |one: &&Requirement| locked.requirements.iter().any(|locked| locked.name() == one.name());
            if let Some(missing) = listed.iter().flatten().find(|one| !is_locked(one)) {
                let reason = format!("it lacks {} of pyproject.toml", missing.name());
                return Err(invalid(manifest, reason).with_fix("make the lock again, as with uv lock"));
            }
            self.locked_hashes = locked.hashes;
            self.requirements.extend(locked.requirements);
        } else if let Some(listed) = listed {
            self.requirements.extend(listed);
        } else if let Some(manifest) = project.manifest("requirements.txt") {
            let listed = parse_requirements_file(&manifest.text);
            let listed =
                listed.map_err(|LineError { line, reason }| invalid(manifest, format!("line {line}: {reason}")))?;
            self.requirements.extend(listed.requirements);
            self.hashes.extend(listed.hashes);
        }
        Ok(())
    }

    /// Returns these requests with additional packages.
    pub(super) fn with(&self, additional: Vec<Requirement>) -> Self {
        let mut all = self.clone();
        all.requirements.extend(additional);
        all
    }

    /// Returns the script's Python requirement if `version` does not satisfy it.
    pub(super) fn unsatisfied_python(&self, version: &str) -> Option<String> {
        let versions = self.requires_python.as_ref().filter(|versions| !version_satisfies(version, versions))?;
        Some(format!("python ({versions})"))
    }

    /// Rejects an image whose Python does not satisfy the script's requirement.
    pub(super) fn check_python(&self, image: &Target) -> Result<(), RunnerError> {
        self.unsatisfied_python(image.python()).map_or(Ok(()), |python| {
            let line = format!("the script requires {python}, but the image has Python {}", image.python());
            Err(RunnerError::new(ResultKind::InstallFailed, line).with_fix("choose another image with --image"))
        })
    }

    /// Returns the normalized requirements in sorted order.
    pub(super) fn texts(&self) -> Vec<String> {
        texts(&self.requirements)
    }

    /// Returns the path of the lock in use.
    pub(super) fn lock_file(&self) -> Option<&Path> {
        self.lock.as_ref().map(|(file, _)| file.as_path())
    }

    /// Rejects files whose hashes are not among those that a requirements file lists, and built-in packages, which have
    /// no file to compare.
    pub(super) fn check_hashes(&self, resolved: &Resolved) -> Result<(), RunnerError> {
        if let Some((name, version)) = resolved.built_in.iter().find(|(name, _)| self.hashes.contains_key(name)) {
            let line = format!("cannot verify the hashes of {name} {version}: it is built in");
            let fix = "remove its hashes, or use --isolation container";
            return Err(RunnerError::new(ResultKind::InstallFailed, line).with_fix(fix));
        }
        resolved.files().try_for_each(|file| self.check_hash(file))
    }

    /// Rejects one file whose hash is not among the listed ones.
    pub(super) fn check_hash(&self, file: &Wheel) -> Result<(), RunnerError> {
        let allowed = self.hashes.get(&file.name).or_else(|| self.locked_hashes.get(&file.name));
        if allowed.is_none_or(|hashes| hashes.contains(&file.sha256)) {
            return Ok(());
        }
        let line = format!("hash mismatch: {} has none of the hashes listed for {}", file.file, file.name);
        Err(RunnerError::new(ResultKind::InstallFailed, line).with_fix("add its hash, or request another version"))
    }

    /// Rejects packages that the configuration does not allow.
    pub(super) fn check(&self, rules: &Packages) -> Result<(), RunnerError> {
        // Dependencies that an index adds are not checked. The entries of a lock are checked, because the program
        // provides it.
        let locked = self.lock.iter().flat_map(|(_, lock)| lock.names());
        let mut names = self.requirements.iter().map(Requirement::name).chain(locked);
        names.find(|name| !rules.allows(name)).map_or(Ok(()), |name| Err(not_allowed(name)))
    }
}

/// Rejects too many requirements, because the job's limits do not bound the work of the resolver.
fn check_count(count: usize) -> Result<(), RunnerError> {
    if count <= MAX_REQUIREMENTS {
        return Ok(());
    }
    let line = format!("{count} packages are requested, but at most {MAX_REQUIREMENTS} are allowed");
    Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("leave out indirect dependencies"))
}

/// Returns normalized requirements in sorted order.
pub(super) fn texts(requirements: &[Requirement]) -> Vec<String> {
    let mut texts: Vec<String> = requirements.iter().map(ToString::to_string).collect();
    texts.sort();
    texts
}

pub(super) fn not_allowed(name: &str) -> RunnerError {
    let line = format!("package {name} is not allowed by the configuration");
    RunnerError::new(ResultKind::Denied, line).with_fix("add it to packages.allow in your own configuration")
}

/// Returns true if a lock file exists at this path. Symbolic links, directories and special files are rejected, because
/// a link may lead to a file that the user did not intend.
pub(super) fn lock_exists(file: &Path) -> Result<bool, RunnerError> {
    let refused = |why: &str| {
        RunnerError::new(ResultKind::InvalidRequest, format!("cannot use {}: {why}", file.display()))
            .with_fix("remove it, or recreate it with codebox lock")
    };
    match std::fs::symlink_metadata(file) {
        Ok(meta) if meta.is_file() => Ok(true),
        Ok(_) => Err(refused("not a regular file")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(refused(&error.to_string())),
    }
}

/// Writes a lock atomically in place of the existing one. A symbolic link or a special file at the path is left alone.
pub(super) fn write_lock(file: &Path, text: &str) -> Result<(), RunnerError> {
    lock_exists(file)?;
    let written = || -> std::io::Result<()> {
        let parent_dir =
            file.parent().filter(|parent_dir| !parent_dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
        let mut staged = builder.prefix(".lock-").tempfile_in(parent_dir)?;
        staged.write_all(text.as_bytes())?;
        // `persist` replaces a name that has become a link in the meantime instead of following the link.
        staged.persist(file)?;
        Ok(())
    };
    written().map_err(|error| {
        RunnerError::new(ResultKind::InvalidRequest, format!("cannot write {}: {error}", file.display()))
    })
}

/// Rejects a lock with packages if the job requests none, because the packages would be missing.
fn reject_unused_lock(file: &Path) -> Result<(), RunnerError> {
    let lock = unused_lock_text(file).and_then(|text| Lock::parse(&text).ok());
    let requirements = lock.map(|lock| lock.requirements().iter().map(ToString::to_string).collect());
    reject_lock_without_requests(file, requirements.unwrap_or_default())
}

/// Returns the content of a lock file of a job that requests no packages. An unreadable file is ignored, because it may
/// not be codebox's.
pub(super) fn unused_lock_text(file: &Path) -> Option<String> {
    lock_exists(file).ok().filter(|exists| *exists).and_then(|_| read_text(file).ok())
}

/// Rejects a lock that was made for `requirements`, for a job that requests no packages.
pub(super) fn reject_lock_without_requests(file: &Path, requirements: Vec<String>) -> Result<(), RunnerError> {
    if requirements.is_empty() {
        return Ok(());
    }
    let options: Vec<String> = requirements.iter().map(|one| format!("--with {}", shell_quote(one))).collect();
    let line = format!("{} was created for {}, but no packages are requested", file.display(), requirements.join(", "));
    let fix = format!("{}, or remove the lock file", options.join(" "));
    Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix))
}

/// Quotes a requirement as one shell word. Inner single quotes become double quotes, which is equivalent in markers;
/// npm requirements contain no quotes.
fn shell_quote(requirement: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./@+".contains(c);
    if requirement.chars().all(plain) {
        requirement.to_owned()
    } else {
        format!("'{}'", requirement.replace('\'', "\""))
    }
}

pub(super) fn lock_error(file: &Path, error: &LockError) -> RunnerError {
    let fix = match error {
        LockError::Invalid(_) => "remove it, or recreate it with codebox lock",
        LockError::RequirementsChanged { .. }
        | LockError::Unsatisfied(_)
        | LockError::Duplicate(_)
        | LockError::FileNameMismatch { .. }
        | LockError::MissingTarget { .. } => "recreate it with codebox lock",
    };
    RunnerError::new(ResultKind::InvalidRequest, format!("cannot use {}: {error}", file.display())).with_fix(fix)
}

/// Reads the text of a regular file within the size limit. Reading a FIFO or a device might never end.
pub(super) fn read_text(path: &Path) -> Result<String, RunnerError> {
    let unreadable = |error: std::io::Error| {
        RunnerError::new(ResultKind::InvalidRequest, format!("cannot read {}: {error}", path.display()))
    };
    let meta = std::fs::metadata(path).map_err(unreadable)?;
    if !meta.is_file() {
        return Err(unreadable(std::io::Error::other("not a regular file")).with_fix("pass the path of a regular file"));
    }
    if meta.len() > MAX_FILE_SIZE {
        let why = format!("larger than {} MiB", MAX_FILE_SIZE >> 20);
        return Err(unreadable(std::io::Error::other(why)).with_fix("use a smaller file"));
    }
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE_SIZE).read_to_string(&mut text));
    match read {
        Ok(_) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            Err(unreadable(std::io::Error::other("not UTF-8 text")).with_fix("save it as UTF-8"))
        }
        Err(error) => Err(unreadable(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_reason_for_unreadable_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("requirements.txt");
        File::create(&file).and_then(|file| file.set_len(MAX_FILE_SIZE + 1)).expect("a sparse file");
        for (path, reason) in [(dir.path(), "not a regular file"), (file.as_path(), "larger than 4 MiB")] {
            let error = read_text(path).expect_err("it cannot be read");
            assert_eq!(error.message(), format!("cannot read {}: {reason}", path.display()));
            assert!(error.fix().is_some(), "{error}");
        }
        File::create(&file).and_then(|file| file.set_len(MAX_FILE_SIZE)).expect("a sparse file");
        assert!(read_text(&file).is_ok());
    }

    #[test]
    fn quotes_requirement_for_shell() {
        for (text, word) in [
            ("rich", "rich"),
            ("rich>=13", "'rich>=13'"),
            ("tomli; python_version < '3.11'", "'tomli ; python_full_version < \"3.11\"'"),
        ] {
            let read: Requirement = text.parse().expect("a requirement");
            assert_eq!(shell_quote(&read.to_string()), word);
            assert_eq!(word.trim_matches('\'').parse::<Requirement>(), Ok(read));
        }
    }
}
