//! The log of a box: its commands and calls, one a line.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;

use codebox_runner::BoxLogEntry;

/// Name of the file.
pub(super) const NAME: &str = "log";

/// Name of the file with the entries before.
pub(super) const EARLIER_NAME: &str = "log.1";

/// Size in bytes from which a new file is started. The one before is kept.
const MAX_SIZE: u64 = 8 << 20;

/// Log of a box that is open.
pub(super) struct Log {
    file: Option<File>,
    size: u64,
}

impl Log {
    pub(super) fn create(dir: &Path) -> Self {
        Self { file: File::create(dir.join(NAME)).ok(), size: 0 }
    }

    /// Adds an entry. A failure, for example because the disk is full, loses it: the command has ended.
    pub(super) fn add(&mut self, dir: &Path, entry: &BoxLogEntry) {
        if self.size > MAX_SIZE {
            let _ = fs::rename(dir.join(NAME), dir.join(EARLIER_NAME));
            *self = Self::create(dir);
        }
        let Ok(mut line) = serde_json::to_vec(entry) else { return };
        line.push(b'\n');
        self.size += line.len() as u64;
        if let Some(file) = &mut self.file {
            let _ = file.write_all(&line);
        }
    }
}

/// Reads the log of a box, the oldest entry first. Lines that are not complete are skipped.
pub(super) fn read(dir: &Path) -> io::Result<Vec<BoxLogEntry>> {
    let mut entries = Vec::new();
    for name in [EARLIER_NAME, NAME] {
        let file = match File::open(dir.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        for line in BufReader::new(file).split(b'\n') {
            entries.extend(serde_json::from_slice::<BoxLogEntry>(&line?));
        }
    }
    Ok(entries)
}
