//! The jobs that are over: lines that are only ever added to. A job can have two, of which readers take one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use super::record::Record;

/// The file that lines are added to, and the one before it.
const NAMES: [&str; 2] = ["history.jsonl", "history.1.jsonl"];

/// How long the file grows before another is begun: some thousands of jobs.
const LONGEST: u64 = 1 << 20;

/// The file, open for adding.
#[derive(Debug)]
pub(super) struct History(File);

impl History {
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        OpenOptions::new().append(true).create(true).open(folder.join(NAMES[0])).map(Self)
    }

    /// Adds a line with one write, so that lines of several processes do not mix. It begins with an end of line: the one
    /// before it may have been cut.
    pub(super) fn add(&mut self, record: &Record) -> io::Result<()> {
        let mut line = vec![b'\n'];
        line.extend(record.line());
        self.0.write_all(&line)
    }
}

/// Begins another file where this one is long.
pub(super) fn turn_page(folder: &Path) -> io::Result<()> {
    let [now, before] = NAMES.map(|name| folder.join(name));
    match fs::symlink_metadata(&now) {
        Ok(meta) if meta.len() > LONGEST => fs::rename(now, before),
        _ => Ok(()),
    }
}

/// All that is there. A line that is none, say for want of room when it was written, is left out.
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
