//! Append-only history of ended jobs. A job can have two lines; readers use one of them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use super::record::Record;

/// File that lines are appended to, and its predecessor.
const NAMES: [&str; 2] = ["history.jsonl", "history.1.jsonl"];

/// Size in bytes above which a new file is started; enough for some thousands of jobs.
const LONGEST: u64 = 1 << 20;

/// History file, open for appending.
#[derive(Debug)]
pub(super) struct History(File);

impl History {
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        OpenOptions::new().append(true).create(true).open(folder.join(NAMES[0])).map(Self)
    }

    /// Appends a line in a single write, so that lines of several processes do not mix. The line starts with a newline,
    /// because the previous line may be truncated.
    pub(super) fn add(&mut self, record: &Record) -> io::Result<()> {
        let mut line = vec![b'\n'];
        line.extend(record.line());
        self.0.write_all(&line)
    }
}

/// Starts a new file if the current one is too long.
pub(super) fn rotate(folder: &Path) -> io::Result<()> {
    let [now, before] = NAMES.map(|name| folder.join(name));
    match fs::symlink_metadata(&now) {
        Ok(meta) if meta.len() > LONGEST => fs::rename(now, before),
        _ => Ok(()),
    }
}

/// Reads all records. Malformed or truncated lines are skipped.
pub(super) fn read(folder: &Path) -> io::Result<Vec<Record>> {
    let mut records = Vec::new();
    for name in NAMES {
        let mut text = Vec::new();
        match File::open(folder.join(name)) {
            Ok(file) => drop(file.take(4 * LONGEST).read_to_end(&mut text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        records.extend(text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()));
    }
    Ok(records)
}
