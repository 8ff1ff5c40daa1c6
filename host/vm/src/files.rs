//! Files of a machine.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// Maximum length of a log that is read, in bytes from its end.
const MAX_LOG: u64 = 64 << 10;

/// Directory with the files of a machine.
#[derive(Debug, Clone)]
pub(crate) struct MachineDir(PathBuf);

impl MachineDir {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the file with the messages of the machine.
    pub(crate) fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    /// Locks the machine against another process that starts or makes it.
    pub(crate) fn lock(&self) -> io::Result<File> {
        codebox_files::private_dir(&self.0)?;
        let lock = File::options().write(true).create(true).truncate(false).open(self.0.join("lock"))?;
        lock.lock()?;
        Ok(lock)
    }
}

/// Removes a file, unless it is missing.
pub(crate) fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Returns the end of a log; an empty text if there is none.
pub(crate) fn end_of(log: &Path) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MAX_LOG)))?;
        let mut text = Vec::new();
        file.take(MAX_LOG).read_to_end(&mut text)?;
        Ok(text)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}
