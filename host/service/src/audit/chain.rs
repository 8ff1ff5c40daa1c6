//! The file of the audit log: lines that are linked by their digests.
//!
//! A line is a JSON object whose last member is `digest`: the sha256, in hexadecimal, of all bytes of the line before it. Its member
//! `previous` is the digest of the line before. A second file has the number and the digest of the last record, so that the removal of the last
//! lines is found as well. A process that can write the files can compute new digests for all later lines; a digest that was noted elsewhere
//! shows that.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::event::Event;

/// File of the records.
const LOG: &str = "log.jsonl";

/// File of the last record's number and digest.
const HEAD: &str = "head";

/// Digest before the first record.
const NONE: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Text between the rest of a line and its digest.
const BEFORE_DIGEST: &[u8] = b",\"digest\":\"";

/// Text after the digest.
const AFTER_DIGEST: &[u8] = b"\"}\n";

/// Maximum length of a line in bytes.
const MAX_LINE: u64 = 1 << 20;

/// Number of bytes at the end of the file in which the last line usually is.
const SHORT_TAIL: u64 = 16 << 10;

/// Record of the audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Number of the record; the first one is 1.
    pub seq: u64,
    /// Time at which it was written, in milliseconds since 1970.
    pub time_ms: u64,
    /// Digest of the record before.
    pub previous: String,
    /// The event.
    pub event: Event,
    /// Digest of the record.
    #[serde(default)]
    pub digest: String,
}

/// Result of a check that found no change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Number of records.
    pub records: u64,
    /// Number of records that the user has removed before the first one.
    pub pruned: u64,
    /// Number of the last record; 0 if there is none.
    pub last: u64,
    /// Digest of the last record, which can be noted and compared later.
    pub digest: String,
}

/// Place at which the log was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize)]
#[error("{reason}")]
pub struct Broken {
    /// Number of the line; 0 if it is another file.
    pub line: u64,
    /// Description of the change.
    pub reason: String,
}

/// Line without its digest.
#[derive(Serialize)]
struct Unsigned<'l> {
    seq: u64,
    time_ms: u64,
    previous: &'l str,
    event: &'l Event,
}

/// Returns the time in milliseconds since 1970.
fn millis() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    u64::try_from(time).unwrap_or(u64::MAX)
}

/// Returns the line of a record, and its digest.
fn line(seq: u64, previous: &str, event: &Event) -> io::Result<(Vec<u8>, String)> {
    let mut text = serde_json::to_vec(&Unsigned { seq, time_ms: millis(), previous, event })?;
    // The closing brace follows the digest.
    text.pop();
    let digest = codebox_files::hex(&Sha256::digest(&text));
    text.extend_from_slice(BEFORE_DIGEST);
    text.extend_from_slice(digest.as_bytes());
    text.extend_from_slice(AFTER_DIGEST);
    Ok((text, digest))
}

/// Returns the record of a line with its line feed, if its digest is right.
fn record(text: &[u8]) -> Option<AuditRecord> {
    let rest = text.strip_suffix(AFTER_DIGEST)?;
    let (signed, digest) = rest.split_at_checked(rest.len().checked_sub(64)?)?;
    let signed = signed.strip_suffix(BEFORE_DIGEST)?;
    (codebox_files::hex(&Sha256::digest(signed)).as_bytes() == digest).then_some(())?;
    serde_json::from_slice(text).ok()
}

/// The log, open for writing.
#[derive(Debug)]
pub(super) struct Writer {
    folder: PathBuf,
    file: File,
    /// The file of the last record's number and digest; `None` if it was removed or damaged. It is not made again, because then the removal
    /// of the last records would not be found.
    head: Option<File>,
    /// Number and digest of the last record.
    last: (u64, String),
    length: u64,
}

impl Writer {
    /// Opens the log, and locks it against other writers.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let mut this =
            Self { folder: folder.to_owned(), file: lock(folder)?, head: None, last: (0, NONE.to_owned()), length: 0 };
        this.read_last()?;
        Ok(this)
    }

    /// Allows other processes to write.
    pub(super) fn unlock(self) -> io::Result<Self> {
        self.file.unlock()?;
        Ok(self)
    }

    /// Locks a log again that was unlocked.
    pub(super) fn lock_again(mut self) -> io::Result<Self> {
        self.file.lock()?;
        if !is_current(&self.file, &self.folder.join(LOG))? {
            return Self::open(&self.folder);
        }
        if self.file.metadata()?.len() != self.length {
            self.read_last()?;
        }
        Ok(self)
    }

    /// Finds the last record.
    fn read_last(&mut self) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        let mut text = Vec::new();
        let mut line = 0..0;
        for window in [SHORT_TAIL, 2 * MAX_LINE] {
            let from = length.saturating_sub(window);
            text.clear();
            self.file.seek(SeekFrom::Start(from))?;
            (&self.file).take(window).read_to_end(&mut text)?;
            // A process may have been killed while it wrote the last line.
            let complete = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let before = text[..complete.saturating_sub(1)].iter().rposition(|byte| *byte == b'\n');
            line = before.map_or(0, |at| at + 1)..complete;
            self.length = from + complete as u64;
            if before.is_some() || from == 0 {
                break;
            }
        }
        if self.length != length {
            self.file.set_len(self.length)?;
        }
        self.last = match &text[line] {
            [] => (0, NONE.to_owned()),
            line => {
                let damaged = "its last record is damaged: run codebox audit reset";
                let last = record(line).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, damaged))?;
                (last.seq, last.digest)
            }
        };
        let known = read_head(&self.folder)?;
        self.head = match (&known, self.last.0) {
            (Head::Last(..), _) | (Head::Missing | Head::Empty, 0) | (Head::Empty, 1) => Some(open_head(&self.folder)?),
            (Head::Missing | Head::Empty | Head::Damaged, _) => None,
        };
        if let (Head::Empty, 1) = (&known, self.last.0) {
            // A process was killed before it wrote the first number.
            self.write_head()?;
        }
        if let Head::Last(seq, digest) = known
            && seq >= self.last.0
        {
            // The next record follows the last one that was written, also if that was removed or changed since.
            self.last = (seq, digest);
        }
        Ok(())
    }

    /// Adds a record.
    pub(super) fn append(&mut self, event: &Event) -> io::Result<()> {
        let overflow =
            || io::Error::new(io::ErrorKind::InvalidData, "its numbers are damaged: run codebox audit reset");
        let (seq, previous) = (self.last.0.checked_add(1).ok_or_else(overflow)?, self.last.1.as_str());
        let (text, digest) = line(seq, previous, event)?;
        if text.len() as u64 > MAX_LINE {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the record is too long"));
        }
        // A part of a line would be removed by the next writer.
        self.file.write_all(&text).inspect_err(|_| drop(self.file.set_len(self.length)))?;
        self.length += text.len() as u64;
        self.last = (seq, digest);
        self.write_head()
    }

    fn write_head(&mut self) -> io::Result<()> {
        let (seq, digest) = &self.last;
        let Some(head) = &mut self.head else { return Ok(()) };
        head.seek(SeekFrom::Start(0))?;
        // One write of the same length each time.
        head.write_all(head_text(*seq, digest).as_bytes())
    }
}

/// Opens the file of the records, and locks it against other writers.
fn lock(folder: &Path) -> io::Result<File> {
    codebox_files::private_dir(folder)?;
    let path = folder.join(LOG);
    loop {
        let file = private(OpenOptions::new().read(true).append(true).create(true)).open(&path)?;
        file.lock()?;
        // The file may have been replaced by a shorter one before it was locked.
        if is_current(&file, &path)? {
            return Ok(file);
        }
    }
}

/// Returns the content of the file of the last record's number and digest.
fn head_text(seq: u64, digest: &str) -> String {
    format!("{seq:020} {digest}\n")
}

fn open_head(folder: &Path) -> io::Result<File> {
    private(OpenOptions::new().read(true).write(true).create(true).truncate(false)).open(folder.join(HEAD))
}

/// Restricts a new file to the user.
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Content of the file of the last record's number and digest.
enum Head {
    Missing,
    Empty,
    Damaged,
    Last(u64, String),
}

fn read_head(folder: &Path) -> io::Result<Head> {
    let mut text = Vec::new();
    match File::open(folder.join(HEAD)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Head::Missing),
        file => file?.take(256).read_to_end(&mut text)?,
    };
    if text.is_empty() {
        return Ok(Head::Empty);
    }
    let text = String::from_utf8_lossy(&text);
    let parts = text.trim_end().split_once(' ').and_then(|(seq, digest)| Some((seq.parse().ok()?, digest)));
    let is_digest = |digest: &str| digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    Ok(match parts.filter(|(_, digest)| is_digest(digest)) {
        Some((seq, digest)) => Head::Last(seq, digest.to_owned()),
        None => Head::Damaged,
    })
}

#[cfg(unix)]
fn is_current(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;

    let (own, named) = (file.metadata()?, fs::symlink_metadata(path));
    Ok(named.is_ok_and(|named| (named.dev(), named.ino()) == (own.dev(), own.ino())))
}

#[cfg(not(unix))]
fn is_current(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}

/// Passes on all records.
pub(super) fn each(folder: &Path, visit: &mut dyn FnMut(AuditRecord)) -> io::Result<()> {
    for_each_line(folder, |text| {
        record(text).into_iter().for_each(&mut *visit);
        Ok(())
    })
}

fn for_each_line(folder: &Path, mut visit: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let file = match File::open(folder.join(LOG)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    let mut reader = BufReader::new(file);
    let mut text = Vec::new();
    loop {
        text.clear();
        if reader.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut text)? == 0 {
            return Ok(());
        }
        // An incomplete last line is about to be written, or belongs to a process that was killed.
        if text.ends_with(b"\n") || text.len() as u64 > MAX_LINE {
            visit(&text)?;
        }
    }
}

/// State of a check.
struct Check<'c> {
    line: u64,
    verified: Verified,
    /// Digest that a record must have, of those that were noted.
    wanted: Vec<(Option<u64>, &'c str)>,
    /// Removed records that a later record must declare.
    undeclared: Option<(u64, String)>,
    broken: Option<Broken>,
}

impl Check<'_> {
    fn visit(&mut self, text: &[u8]) {
        self.line += 1;
        if self.broken.is_some() {
            return;
        }
        let Some(record) = record(text) else {
            return self.fail("was changed");
        };
        let is_first = self.verified.records == 0;
        if is_first && record.previous != NONE {
            // The user may have removed records, which a later record says.
            self.undeclared = Some((record.seq.saturating_sub(1), record.previous.clone()));
            self.verified.pruned = record.seq.saturating_sub(1);
        } else if record.previous != self.verified.digest || record.seq != self.verified.last.wrapping_add(1) {
            return self.fail("does not follow the one before: records were removed or moved");
        }
        if let (Event::Pruned { last, .. }, Some((_, digest))) = (&record.event, &self.undeclared)
            && last == digest
        {
            self.undeclared = None;
        }
        self.wanted.retain(|(seq, digest)| !(seq.is_none_or(|seq| seq == record.seq) && *digest == record.digest));
        self.verified.records += 1;
        (self.verified.last, self.verified.digest) = (record.seq, record.digest);
    }

    fn fail(&mut self, what: &str) {
        self.broken = Some(Broken { line: self.line, reason: format!("the record in line {} {what}", self.line) });
    }
}

/// Checks all lines.
pub(super) fn verify(folder: &Path, expected: Option<&str>) -> io::Result<Result<Verified, Broken>> {
    let head = read_head(folder)?;
    let mut wanted: Vec<(Option<u64>, &str)> = expected.map(|digest| (None, digest)).into_iter().collect();
    if let Head::Last(seq, digest) = &head {
        wanted.push((Some(*seq), digest));
    }
    let verified = Verified { records: 0, pruned: 0, last: 0, digest: NONE.to_owned() };
    let mut check = Check { line: 0, verified, wanted, undeclared: None, broken: None };
    for_each_line(folder, |text| {
        check.visit(text);
        Ok(())
    })?;
    let other = |reason: String| Err(Broken { line: 0, reason });
    Ok(match check {
        Check { broken: Some(broken), .. } => Err(broken),
        Check { undeclared: Some((count, _)), .. } => {
            other(format!("the first {count} records were removed, and no record says so"))
        }
        Check { wanted, verified, .. } => match wanted.first() {
            Some((Some(seq), _)) if *seq <= verified.last => other(format!("the record {seq} was replaced")),
            Some((Some(seq), _)) => {
                other(format!("the last records were removed: there were {seq}, and {} is the last", verified.last))
            }
            Some((None, digest)) => other(format!("no record has the digest {digest}")),
            None => match &head {
                Head::Missing if verified.records > 0 => {
                    other("the file with the number of the last record is missing".to_owned())
                }
                Head::Empty if verified.records > 1 => {
                    other("the file with the number of the last record is empty".to_owned())
                }
                Head::Damaged => other("the file with the number of the last record is damaged".to_owned()),
                Head::Missing | Head::Empty | Head::Last(..) => Ok(verified),
            },
        },
    })
}

/// Creates a file that is to replace that of the records.
fn new_file(folder: &Path) -> io::Result<(File, PathBuf)> {
    let path = folder.join("log.jsonl.new");
    Ok((private(OpenOptions::new().write(true).create(true).truncate(true)).open(&path)?, path))
}

/// Removes a file on drop, unless it was renamed.
struct RemoveOnDrop<'p>(&'p Path);

impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0);
    }
}

/// Removes the records before a time, and returns their number.
pub(super) fn prune(folder: &Path, before_ms: u64) -> io::Result<u64> {
    if !folder.join(LOG).exists() {
        return Ok(0);
    }
    let mut locked = Writer::open(folder)?;
    if let Err(broken) = verify(folder, None)? {
        return Err(io::Error::new(io::ErrorKind::InvalidData, broken.reason));
    }
    let (kept, new) = new_file(folder)?;
    let mut kept = io::BufWriter::new(kept);
    let _unused = RemoveOnDrop(&new);
    let (mut removed, mut last, mut keeps) = (0, None, false);
    for_each_line(folder, |text| {
        let Some(record) = record(text) else { return Ok(()) };
        // The last record stays, because the next one follows it.
        keeps |= record.time_ms >= before_ms || record.seq == locked.last.0;
        if keeps {
            return kept.write_all(text);
        }
        (removed, last) = (removed + 1, Some((record.seq, record.digest)));
        Ok(())
    })?;
    let Some((records, last)) = last else { return Ok(0) };
    // The record of the removal is in the new file before that replaces the old one.
    let file = kept.into_inner().map_err(io::IntoInnerError::into_error)?;
    let (text, digest) = line(locked.last.0 + 1, &locked.last.1, &Event::Pruned { records, last })?;
    (&file).write_all(&text)?;
    file.sync_all()?;
    fs::rename(&new, folder.join(LOG))?;
    locked.last = (locked.last.0 + 1, digest);
    locked.write_head()?;
    Ok(removed)
}

/// Begins a new log if this one is damaged, and keeps the old file under the returned name. `None` if it is intact.
pub(super) fn reset(folder: &Path) -> io::Result<Option<String>> {
    let _locked = lock(folder)?;
    let Err(Broken { reason, .. }) = verify(folder, None)? else { return Ok(None) };
    let kept = format!("log-{}.damaged.jsonl", millis());
    // The old file has a name at all times, and the first record of the new one is in it before it replaces the old one.
    fs::hard_link(folder.join(LOG), folder.join(&kept))?;
    let (text, digest) = line(1, NONE, &Event::Reset { kept: kept.clone(), reason })?;
    let (file, new) = new_file(folder)?;
    (&file).write_all(&text)?;
    file.sync_all()?;
    fs::rename(&new, folder.join(LOG))?;
    let head = open_head(folder)?;
    head.set_len(0)?;
    (&head).write_all(head_text(1, &digest).as_bytes())?;
    Ok(Some(kept))
}
