//! Directories and program files that no other user can change.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sys::{self, build_private, open_directory_itself, open_itself};
use crate::trust::Untrusted;

/// Makes a directory, and its parents, that only this user can enter.
///
/// One that exists must be a directory of this user's (no link to one) that nobody else may write to, and no other
/// user may be able to put another one in its place.
///
/// # Errors
/// The system's, when something else stands there or it cannot be made; `PermissionDenied` when another user could
/// change it.
pub fn private_dir(path: &Path) -> io::Result<()> {
    if let Err(error) = check_private(path) {
        if error.kind() != io::ErrorKind::NotFound {
            return Err(error);
        }
        let mut builder = DirBuilder::new();
        build_private(builder.recursive(true));
        builder.create(path)?;
        check_private(path)?;
    }
    Ok(())
}

fn check_private(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    open_directory_itself(options.read(true));
    let dir = match options.open(path) {
        Ok(dir) => dir,
        Err(error) => {
            return Err(match fs::symlink_metadata(path) {
                Ok(meta) if meta.is_symlink() => Untrusted::Link.at(path),
                Ok(meta) if !meta.is_dir() => Untrusted::NotADirectory.at(path),
                _ => error,
            });
        }
    };
    sys::check_own(&dir.metadata()?).map_err(|reason| reason.at(path))?;
    sys::check_parents(path)
}

/// A program of ours in a private directory, open and verified byte by byte.
#[derive(Debug)]
pub struct ProgramFile {
    path: PathBuf,
    file: File,
}

impl ProgramFile {
    /// Opens the program `name` below `folder`, and writes it first if it is missing or differs from `content`.
    ///
    /// The file appears whole under its name. It is a regular file of this user's that nobody else may write to.
    ///
    /// # Errors
    /// When the folder is not private (see [`private_dir`]) or the file cannot be written.
    pub fn install(folder: &Path, name: &str, content: &[u8]) -> io::Result<Self> {
        private_dir(folder)?;
        let path = folder.join(name);
        if let Some(file) = verified(&path, content)? {
            return Ok(Self { path, file });
        }
        write_program(folder, &path, content)?;
        let file = verified(&path, content)?;
        let file =
            file.ok_or_else(|| io::Error::other(format!("{} was changed by another process", path.display())))?;
        Ok(Self { path, file })
    }

    /// The program's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file, whose content was verified.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// A command that runs the verified file itself, whatever its path names by then.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn command(&self) -> Command {
        command_of(&self.file, &self.path)
    }

    /// A command that runs the program by its path.
    #[cfg(not(target_os = "linux"))]
    #[must_use]
    pub fn command(&self) -> Command {
        Command::new(&self.path)
    }
}

/// A command that executes an open file; the descriptor has to stay open until the command is spawned.
#[cfg(target_os = "linux")]
fn command_of(file: &File, name: &Path) -> Command {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::process::CommandExt as _;
    // The kernel opens the path in the new process, which has the same descriptors until the program starts.
    let mut command = Command::new(format!("/proc/self/fd/{}", file.as_raw_fd()));
    command.arg0(name);
    command
}

/// Opens the file at `path` if it is a regular file of this user's with exactly this content.
fn verified(path: &Path, content: &[u8]) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    open_itself(options.read(true));
    let Ok(mut file) = options.open(path) else { return Ok(None) };
    let meta = file.metadata()?;
    let length = u64::try_from(content.len()).map_err(io::Error::other)?;
    if !meta.is_file() || sys::check_own(&meta).is_err() || !sys::may_run(&meta) || meta.len() != length {
        return Ok(None);
    }
    let mut found = Vec::with_capacity(content.len());
    io::Read::by_ref(&mut file).take(length + 1).read_to_end(&mut found)?;
    Ok((found == content).then_some(file))
}

fn write_program(folder: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".program-").tempfile_in(folder)?;
    file.write_all(content)?;
    sys::make_program(file.as_file())?;
    // Closed before anybody runs it: the system runs no file that is open for writing.
    file.into_temp_path().persist(path)?;
    Ok(())
}

#[cfg(all(test, unix))]
mod tests;
