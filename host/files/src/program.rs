//! A program that codebox embeds, as a file that no other user can change.
//!
//! Comparing megabytes at every start would take longer than the start itself. A seal file therefore stores the
//! identity of the program file at the last comparison: device, inode, size, modification time and change time. The
//! change time is updated with content, owner, mode and name, and an unprivileged program cannot set it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::embedded::EmbeddedFile;
use crate::private_dir;
use crate::sys::{self, set_nofollow};

/// The longest seal that is read, in bytes.
const MAX_SEAL_LEN: u64 = 256;

/// A program file in a private directory, open and with verified content.
#[derive(Debug)]
pub struct ProgramFile {
    path: PathBuf,
    file: File,
}

impl ProgramFile {
    /// Opens the program `name` in `folder`. Writes the file first if it is missing or differs from `content`.
    ///
    /// The file is written atomically. It is a regular file of this user, and is not writable by anybody. Its content
    /// is compared unless the seal shows that the same file was compared before and has not changed since.
    ///
    /// # Errors
    /// An error if the folder is not private (see [`private_dir`]) or the file cannot be written.
    pub fn install(folder: &Path, name: &str, content: EmbeddedFile<'_>) -> io::Result<Self> {
        private_dir(folder)?;
        let (path, seal) = (folder.join(name), folder.join(format!("{name}.seal")));
        let file = match open_verified(&path, &seal, content)? {
            Some(file) => file,
            None => {
                write(folder, &path, &content.content()?, sys::set_program_mode)?;
                let changed = || io::Error::other(format!("{} was changed by another process", path.display()));
                open_verified(&path, &seal, content)?.ok_or_else(changed)?
            }
        };
        Ok(Self { path, file })
    }

    /// Opens a program that was installed at `path` together with codebox. Returns `None` unless it has the length of `content`, is
    /// executable, and can be changed only by root and by this user.
    ///
    /// The content is not compared: a user who can change the file can change codebox beside it.
    #[must_use]
    pub fn installed(path: &Path, content: EmbeddedFile<'_>) -> Option<Self> {
        sys::check_resolved_path(path).ok()?;
        let mut options = OpenOptions::new();
        set_nofollow(options.read(true));
        let file = options.open(path).ok()?;
        let meta = file.metadata().ok()?;
        let is_usable = meta.is_file()
            && meta.len() == content.content_len()
            && sys::check_own_or_private(&meta).is_ok()
            && sys::is_executable_by_all(&meta);
        is_usable.then(|| Self { path: path.to_owned(), file })
    }

    /// Writes a program for an installation, which all users can read and execute. The directory must exist.
    ///
    /// # Errors
    /// The system's error if the file cannot be written.
    pub fn pack(path: &Path, content: EmbeddedFile<'_>) -> io::Result<()> {
        write(path.parent().unwrap_or(path), path, &content.content()?, sys::set_program_mode)
    }

    /// Returns the program's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the open file, whose content was verified.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns a command that runs the verified file even if another file has taken its path.
    ///
    /// The descriptor must stay open until the command is spawned.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn command(&self) -> Command {
        use std::os::fd::AsRawFd as _;
        use std::os::unix::process::CommandExt as _;
        // The kernel opens the path in the new process, which has the same descriptors until `exec`.
        let mut command = Command::new(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        command.arg0(&self.path);
        command
    }

    /// Returns a command that runs the program by its path.
    #[cfg(not(target_os = "linux"))]
    #[must_use]
    pub fn command(&self) -> Command {
        Command::new(&self.path)
    }
}

/// Opens the file at `path` if it is a regular file of this user with exactly this content, and seals it.
fn open_verified(path: &Path, seal: &Path, content: EmbeddedFile<'_>) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    set_nofollow(options.read(true));
    // The caller writes a missing file and replaces a link.
    let Ok(mut file) = options.open(path) else { return Ok(None) };
    let meta = file.metadata()?;
    let length = content.content_len();
    if !meta.is_file() || sys::check_own(&meta).is_err() || !sys::is_executable_by_all(&meta) || meta.len() != length {
        return Ok(None);
    }
    let identity = sys::identity(&meta);
    if identity.is_some() && read_seal(seal).ok() == identity {
        return Ok(Some(file));
    }
    let mut found = Vec::new();
    io::Read::by_ref(&mut file).take(length + 1).read_to_end(&mut found)?;
    if found != content.content()? {
        return Ok(None);
    }
    // Without a seal, the content is compared again at the next start.
    if let (Some(identity), Some(folder)) = (identity, seal.parent()) {
        let _ = write(folder, seal, identity.as_bytes(), |_| Ok(()));
    }
    Ok(Some(file))
}

fn read_seal(seal: &Path) -> io::Result<String> {
    let mut options = OpenOptions::new();
    set_nofollow(options.read(true));
    let mut text = String::new();
    options.open(seal)?.take(MAX_SEAL_LEN).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes a file atomically. `finish` sets its mode.
fn write(folder: &Path, path: &Path, content: &[u8], finish: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".program-").tempfile_in(folder)?;
    file.write_all(content)?;
    finish(file.as_file())?;
    // The file must be closed before it is executed: the kernel refuses to execute a file that is open for writing.
    file.into_temp_path().persist(path)?;
    Ok(())
}

#[cfg(all(test, unix))]
mod tests;
