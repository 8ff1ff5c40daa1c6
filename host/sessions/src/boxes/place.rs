//! The directories of the boxes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use codebox_core::{BoxInfo, is_box_name};
use codebox_files::{SocketDir, private_dir};

/// Name of the file with the facts about a box.
const INFO: &str = "box.json";

/// Name of the directory for output that was cut.
const OUTPUT: &str = "output";

/// The directory of all boxes of a user. Only the user can open it.
#[derive(Debug, Clone)]
pub struct BoxPlace(PathBuf);

impl BoxPlace {
    /// Returns the place below a cache directory. Accesses nothing.
    #[must_use]
    pub fn below(cache: &Path) -> Self {
        Self(cache.join("boxes"))
    }

    /// Returns the directory of a box; `None` if this is not the name of a box.
    pub(super) fn of(&self, name: &str) -> Option<BoxDir> {
        is_box_name(name).then(|| BoxDir(SocketDir::new(self.0.join(name))))
    }

    /// Creates the directory of a box.
    pub(super) fn create(&self, name: &str) -> io::Result<BoxDir> {
        let dir = self.of(name).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "invalid name"))?;
        private_dir(&self.0)?;
        private_dir(dir.path())?;
        Ok(dir)
    }

    /// Returns the directories of all boxes.
    pub(super) fn all(&self) -> io::Result<Vec<BoxDir>> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut dirs = Vec::new();
        for entry in entries {
            dirs.extend(entry?.file_name().to_str().and_then(|name| self.of(name)));
        }
        Ok(dirs)
    }
}

/// The directory of one box.
#[derive(Debug, Clone)]
pub(super) struct BoxDir(pub SocketDir);

impl BoxDir {
    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the directory for output that was cut.
    pub(super) fn output(&self) -> PathBuf {
        self.path().join(OUTPUT)
    }

    /// Removes everything of an earlier box, and creates the directories of a new one. Call it with the lock.
    pub(super) fn clear(&self) -> io::Result<()> {
        self.0.remove_socket();
        let removed = match fs::remove_dir_all(self.output()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        removed?;
        for name in [INFO, super::log::NAME, super::log::EARLIER_NAME] {
            match fs::remove_file(self.path().join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        private_dir(&self.output()).map(drop)
    }

    /// Removes the directory. Call it with the lock.
    pub(super) fn remove(&self) -> io::Result<()> {
        fs::remove_dir_all(self.path())
    }

    pub(super) fn write_info(&self, info: &BoxInfo) -> io::Result<()> {
        let text = serde_json::to_vec(info).map_err(io::Error::other)?;
        let new = self.path().join("box.new");
        fs::write(&new, text)?;
        fs::rename(new, self.path().join(INFO))
    }

    /// Reads the facts about a box that were written last; `None` if there are none.
    pub(super) fn read_info(&self) -> Option<BoxInfo> {
        serde_json::from_slice(&fs::read(self.path().join(INFO)).ok()?).ok()
    }
}
