//! Copies of a project's files, without secrets, ignored files and copies of packages.

use std::ffi::OsString;
use std::io::{self, Read as _};

use cap_std::fs::Dir;

use crate::open::{open_dir, open_file};
use crate::sys::is_executable;

mod excluded;
mod ignored;

pub use excluded::excluded;
use ignored::IgnoreRules;

/// Most files of a project.
pub const MAX_PROJECT_FILES: usize = 5000;
/// Most bytes of a project's files together.
pub const MAX_PROJECT_BYTES: u64 = 64 << 20;
/// Most entries that are looked at, with those that are left out.
const MAX_ENTRIES: usize = 20_000;
/// Greatest depth of directories.
const MAX_DEPTH: usize = 64;
/// Name of the files whose patterns exclude files.
pub(crate) const IGNORE_FILE: &str = ".gitignore";
/// Mark at the start of some files in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Greatest size of all such files together in bytes.
const MAX_IGNORE_BYTES: u64 = 256 << 10;

/// Files of a project.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProjectFiles {
    /// The files, in the order of their paths.
    pub files: Vec<ProjectFile>,
    /// The entries that were left out, in the order of their paths.
    pub left_out: Vec<LeftOut>,
}

/// A file of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectFile {
    /// Path below the project's directory, with `/` between its components.
    pub path: String,
    /// Content of the file.
    pub content: Vec<u8>,
    /// True if its owner may execute the file.
    pub executable: bool,
}

/// An entry of a project that is not copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Path below the project's directory, which ends with `/` for a directory.
    pub path: String,
    /// The reason.
    pub reason: LeftOutReason,
}

/// Reason that an entry of a project is not copied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeftOutReason {
    /// Its name is one that files with secrets have.
    #[error("it may be a secret")]
    Secret,
    /// A `.gitignore` excludes it.
    #[error(".gitignore lists it")]
    Ignored,
    /// It is the data of a version control system.
    #[error("it is of version control")]
    VersionControl,
    /// It is a directory of installed packages or of a cache, which differ between systems.
    #[error("it has installed packages or is a cache")]
    Generated,
    /// It is a link.
    #[error("it is a link")]
    Link,
    /// It is neither a file nor a directory.
    #[error("it is neither a file nor a directory")]
    Special,
    /// Its name is not UTF-8, or has characters that paths of guests cannot have.
    #[error("its name cannot be used in the guest")]
    Name,
    /// It could not be read.
    #[error("{0}")]
    Unreadable(String),
}

/// Error for a project that cannot be copied.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// The directory could not be listed.
    #[error("cannot be listed: {0}")]
    Io(#[from] io::Error),
    /// The project has too many files.
    #[error("it has more than {MAX_PROJECT_FILES} files")]
    TooManyFiles,
    /// The project's files are too large.
    #[error("its files have more than {} MiB; the largest is {largest}", MAX_PROJECT_BYTES >> 20)]
    TooLarge {
        /// Path of the largest file that was read.
        largest: String,
    },
    /// A `.gitignore` cannot be applied, so that the files that it lists are not known.
    #[error("cannot apply {path}: {reason}")]
    Ignore {
        /// Path of the file below the project, or its name in a directory above.
        path: String,
        /// The reason.
        reason: String,
    },
    /// The project has too many entries.
    #[error("it has more than {MAX_ENTRIES} entries")]
    TooManyEntries,
}

/// Reads the files below `dir`, following no link.
///
/// `above` has the directories above it whose `.gitignore` applies, the outermost first, each with the name of its entry that leads to `dir`.
///
/// # Errors
/// Returns an error if the directory cannot be listed, if there are too many files or bytes, or if a `.gitignore` cannot be applied.
pub fn read_project(dir: &Dir, above: &[(Dir, OsString)]) -> Result<ProjectFiles, ProjectError> {
    let mut walk = Walk {
        rules: IgnoreRules::default(),
        found: ProjectFiles::default(),
        bytes: 0,
        largest: (0, String::new()),
        entries: 0,
        ignore_bytes: MAX_IGNORE_BYTES,
    };
    for (dir, name) in above {
        walk.enter(dir, "")?;
        walk.rules.descend(&name.to_string_lossy());
    }
    walk.directory(dir, "", 0)?;
    Ok(walk.found)
}

struct Walk {
    rules: IgnoreRules,
    found: ProjectFiles,
    bytes: u64,
    largest: (u64, String),
    entries: usize,
    /// Bytes that further `.gitignore` files may have.
    ignore_bytes: u64,
}

impl Walk {
    fn directory(&mut self, dir: &Dir, at: &str, depth: usize) -> Result<(), ProjectError> {
        let mut entries = dir.entries()?.collect::<Result<Vec<_>, _>>()?;
        self.entries += entries.len();
        if self.entries > MAX_ENTRIES {
            return Err(ProjectError::TooManyEntries);
        }
        entries.sort_by_key(cap_std::fs::DirEntry::file_name);
        self.enter(dir, at)?;
        for entry in entries {
            let name = entry.file_name();
            let shown = name.to_string_lossy();
            let path = if at.is_empty() { shown.to_string() } else { format!("{at}/{shown}") };
            let kind = match dir.symlink_metadata(&name) {
                Ok(meta) => meta.file_type(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    self.leave_out(path, LeftOutReason::Unreadable(error.to_string()));
                    continue;
                }
            };
            let shown_path = if kind.is_dir() { format!("{path}/") } else { path.clone() };
            let reason = if name.to_str().is_none_or(|name| name.contains(['\n', '\\'])) {
                Some(LeftOutReason::Name)
            } else if let Some(reason) = excluded(&shown, kind.is_dir()) {
                Some(reason)
            } else if self.rules.exclude(&path, kind.is_dir()) {
                Some(LeftOutReason::Ignored)
            } else if kind.is_symlink() {
                Some(LeftOutReason::Link)
            } else if !kind.is_dir() && !kind.is_file() {
                Some(LeftOutReason::Special)
            } else {
                None
            };
            match reason {
                Some(reason) => self.leave_out(shown_path, reason),
                None if kind.is_dir() && depth == MAX_DEPTH => {
                    let why = format!("it is more than {MAX_DEPTH} directories deep");
                    self.leave_out(shown_path, LeftOutReason::Unreadable(why));
                }
                None if kind.is_dir() => match open_dir(dir, &name) {
                    Ok(inner) if inner.entries().is_ok() => self.directory(&inner, &path, depth + 1)?,
                    Ok(_) => self.leave_out(shown_path, LeftOutReason::Unreadable("it cannot be listed".to_owned())),
                    Err(error) => self.leave_out(shown_path, LeftOutReason::Unreadable(error.to_string())),
                },
                None => self.file(dir, &name, path)?,
            }
        }
        self.rules.leave();
        Ok(())
    }

    /// Adds the patterns of a directory's `.gitignore`. Patterns that cannot be read or applied are an error, because a file that they
    /// exclude would be copied.
    fn enter(&mut self, dir: &Dir, at: &str) -> Result<(), ProjectError> {
        let path = if at.is_empty() { IGNORE_FILE.to_owned() } else { format!("{at}/{IGNORE_FILE}") };
        let failed = |reason: String| ProjectError::Ignore { path, reason };
        let text = match ignore_file(dir, self.ignore_bytes) {
            Ok(text) => text,
            Err(error) => return Err(failed(error.to_string())),
        };
        self.ignore_bytes -= text.len() as u64;
        self.rules.enter(at, &text).map_err(failed)
    }

    fn file(&mut self, dir: &Dir, name: &OsString, path: String) -> Result<(), ProjectError> {
        if self.found.files.len() == MAX_PROJECT_FILES {
            return Err(ProjectError::TooManyFiles);
        }
        let left = MAX_PROJECT_BYTES - self.bytes;
        let read = || -> io::Result<ProjectFile> {
            let file = open_file(dir, name)?;
            let meta = file.metadata()?;
            let mut content = Vec::new();
            // No space is reserved for a file that is too large. One byte more than is left shows that it is.
            if meta.len() <= left {
                content.reserve_exact(usize::try_from(meta.len()).unwrap_or_default());
            }
            file.take(left + 1).read_to_end(&mut content)?;
            Ok(ProjectFile { path: path.clone(), content, executable: is_executable(&meta) })
        };
        let file = match read() {
            Ok(file) => file,
            Err(error) => {
                self.leave_out(path, LeftOutReason::Unreadable(error.to_string()));
                return Ok(());
            }
        };
        let size = file.content.len() as u64;
        if size > self.largest.0 {
            self.largest = (size, path);
        }
        if size > left {
            return Err(ProjectError::TooLarge { largest: self.largest.1.clone() });
        }
        self.bytes += size;
        self.found.files.push(file);
        Ok(())
    }

    fn leave_out(&mut self, path: String, reason: LeftOutReason) {
        self.found.left_out.push(LeftOut { path, reason });
    }
}

/// Returns the patterns of a directory's `.gitignore`, of at most this length. A missing file, and a directory or a link of that name,
/// which git does not read either, have none.
fn ignore_file(dir: &Dir, max: u64) -> io::Result<String> {
    match dir.symlink_metadata(IGNORE_FILE) {
        Ok(meta) if meta.is_file() => {}
        Ok(_) => return Ok(String::new()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(error),
    }
    let mut text = Vec::new();
    open_file(dir, IGNORE_FILE.as_ref())?.take(max + 1).read_to_end(&mut text)?;
    if text.len() as u64 > max {
        let kib = MAX_IGNORE_BYTES >> 10;
        return Err(io::Error::other(format!("all such files together have more than {kib} KiB")));
    }
    // git skips a byte order mark too.
    Ok(String::from_utf8_lossy(text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&text)).into_owned())
}

#[cfg(all(test, unix))]
mod tests;
