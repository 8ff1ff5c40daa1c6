//! File form of a session: a header, the compressed archive of a checkpoint's directory, and a checksum.
//!
//! | bytes | contents |
//! |---|---|
//! | 18 | `codebox session 1` and a line feed, whose number is the version of the form |
//! | 4 | length of the header, little-endian |
//! | | [`Header`] as JSON |
//! | | tar archive of the directory, compressed with zstd in one frame |
//! | 32 | sha256 of all bytes before |
//!
//! A file may come from anywhere. Its checksum detects damage; it proves nothing about the origin.

use std::io::{self, BufRead, BufReader, Read, Write};

use codebox_core::{PAGES_FILE, ResultKind, RunnerError};
use codebox_files::{Dir, UnpackRules, pack_tree, unpack_tree};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// First bytes of every form.
const MAGIC: &[u8] = b"codebox session ";

/// The rest of the first line, for the form of this module.
const VERSION: &[u8] = b"1\n";

/// Files of a checkpoint, with their maximum sizes: the description, and the memory of a guest.
const FILES: [(&str, u64); 2] = [("state.json", 32 << 20), (PAGES_FILE, 1 << 32)];

/// Private directories in a checkpoint.
const DIRS: [&str; 2] = ["work", "tmp"];

/// Maximum length of a header in bytes.
const MAX_HEADER: u32 = 1 << 20;

/// Bytes of the checksum.
const CHECKSUM: u64 = 32;

/// Level of the compression. Higher ones take several times as long, and save a tenth.
const LEVEL: i32 = 3;

/// Maximum size of the history of the compression, as a power of two, which determines the memory of the decompression.
const MAX_WINDOW_LOG: u32 = 27;

/// Facts about a session that its file starts with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    /// Version of codebox that has written the file.
    pub codebox: String,
    /// Language of the cells.
    pub language: String,
    /// Packages of the session, as its request names them.
    pub packages: Vec<String>,
}

/// Writes the file of a session, from the directory of a checkpoint.
pub(super) fn write(header: &Header, checkpoint: &Dir, to: &mut dyn Write) -> io::Result<()> {
    let mut hashing = HashingWriter { inner: to, hash: Sha256::new() };
    hashing.write_all(&[MAGIC, VERSION].concat())?;
    let text = serde_json::to_vec(header)?;
    let length = u32::try_from(text.len()).ok().filter(|length| *length <= MAX_HEADER);
    let length = length.ok_or_else(|| io::Error::other("the list of packages is too long"))?;
    hashing.write_all(&length.to_le_bytes())?;
    hashing.write_all(&text)?;
    let mut encoder = zstd::stream::write::Encoder::new(&mut hashing, LEVEL)?;
    pack_tree(checkpoint, &mut encoder)?;
    encoder.finish()?;
    let HashingWriter { inner, hash } = hashing;
    inner.write_all(&hash.finalize())?;
    inner.flush()
}

/// The start of a session's file.
pub struct SessionFileHead {
    pub(super) header: Header,
    bytes: Vec<u8>,
}

impl SessionFileHead {
    /// Reads the start of a file, and nothing beyond it.
    ///
    /// # Errors
    /// Returns an error if it is not the file of a session, or if its form has another version.
    pub fn read(mut from: impl Read) -> Result<Self, RunnerError> {
        let mut bytes = Vec::new();
        let read = |from: &mut dyn Read, bytes: &mut Vec<u8>, count: usize| {
            let read = from.take(count as u64).read_to_end(bytes);
            read.map(|read| read == count).map_err(|error| unreadable(&error))
        };
        let line = MAGIC.len() + VERSION.len();
        if !read(&mut from, &mut bytes, line)? || !bytes.starts_with(MAGIC) {
            return Err(refused("it is not a file of `codebox session export`"));
        }
        if &bytes[MAGIC.len()..] != VERSION {
            let found = String::from_utf8_lossy(&bytes[MAGIC.len()..]).trim_end().escape_debug().to_string();
            return Err(refused(&format!("its form has version {found}, and this codebox reads version 1")));
        }
        let incomplete = || refused("the file is incomplete");
        if !read(&mut from, &mut bytes, 4)? {
            return Err(incomplete());
        }
        let length = bytes[line..].first_chunk().copied().map(u32::from_le_bytes).ok_or_else(incomplete)?;
        if length > MAX_HEADER {
            return Err(refused("its header is too long"));
        }
        if !read(&mut from, &mut bytes, length as usize)? {
            return Err(incomplete());
        }
        // The library's message may contain text of the file.
        let malformed =
            |error: serde_json::Error| refused(&format!("its header is malformed in column {}", error.column()));
        let header = serde_json::from_slice(&bytes[line + 4..]).map_err(malformed)?;
        Ok(Self { header, bytes })
    }

    /// Returns the bytes that were read.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// The file of a session whose header was read.
pub(super) struct SessionFile<R: Read> {
    pub header: Header,
    reader: HashingReader<BufReader<R>>,
}

impl<R: Read> SessionFile<R> {
    /// Reads the header of a file.
    pub(super) fn open(from: R) -> Result<Self, RunnerError> {
        let mut reader = HashingReader { inner: BufReader::new(from), hash: Sha256::new() };
        let SessionFileHead { header, .. } = SessionFileHead::read(&mut reader)?;
        Ok(Self { header, reader })
    }

    /// Unpacks the checkpoint into an empty directory, with at most `max_bytes` and `max_entries` in the private directories, and
    /// compares the checksum.
    pub(super) fn unpack(self, into: &Dir, max_bytes: u64, max_entries: u64) -> Result<(), RunnerError> {
        let rules = UnpackRules { files: &FILES, dirs: &DIRS, max_bytes, max_entries };
        let decoder = zstd::stream::read::Decoder::with_buffer(self.reader).map_err(|error| unreadable(&error))?;
        let mut decoder = decoder.single_frame();
        decoder.window_log_max(MAX_WINDOW_LOG).map_err(|error| unreadable(&error))?;
        unpack_tree(&mut decoder, into, &rules).map_err(|error| unreadable(&error))?;
        // The rest of the archive is padding. A frame that does not end would be read without end.
        let rest = io::copy(&mut (&mut decoder).take(MAX_HEADER.into()), &mut io::sink());
        let rest = rest.map_err(|error| unreadable(&error))?;
        if rest == u64::from(MAX_HEADER) {
            return Err(refused("it continues after its end"));
        }
        let HashingReader { inner, hash } = decoder.finish();
        let mut end = Vec::new();
        inner.take(CHECKSUM + 1).read_to_end(&mut end).map_err(|error| unreadable(&error))?;
        match end.as_slice() == hash.finalize().as_slice() {
            true => Ok(()),
            false => Err(refused("its checksum differs: it is damaged or incomplete")),
        }
    }
}

fn refused(why: &str) -> RunnerError {
    RunnerError::new(ResultKind::InvalidRequest, format!("cannot import the session: {why}"))
}

fn unreadable(error: &io::Error) -> RunnerError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => refused("the file is incomplete"),
        _ => refused(&error.to_string().escape_debug().to_string()),
    }
}

/// Writer that computes the checksum of what it has written.
struct HashingWriter<'w> {
    inner: &'w mut dyn Write,
    hash: Sha256,
}

impl Write for HashingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hash.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Reader that computes the checksum of what is used of its buffer.
struct HashingReader<R> {
    inner: R,
    hash: Sha256,
}

impl<R: BufRead> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for HashingReader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        if let Ok(buffer) = self.inner.fill_buf() {
            self.hash.update(&buffer[..count.min(buffer.len())]);
        }
        self.inner.consume(count);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;

    use codebox_files::open_last_dir;

    use super::*;

    fn header() -> Header {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        Header { codebox: "0.1.0".to_owned(), language: "python".to_owned(), packages: words("requests rich") }
    }

    /// Returns the file of a checkpoint with these bytes of pages.
    fn packed(pages: usize) -> Vec<u8> {
        let home = tempfile::tempdir().expect("a directory");
        let dir = home.path().join("checkpoint");
        fs::create_dir_all(dir.join("work/a")).expect("a directory");
        fs::write(dir.join("pages.bin"), vec![7; pages]).expect("it is ours");
        fs::write(dir.join("work/a/b"), "text").expect("it is ours");
        let mut file = Vec::new();
        write(&header(), &open_last_dir(&dir).expect("a directory"), &mut file).expect("it is written");
        file
    }

    /// Unpacks a file, and returns the bytes of the pages.
    fn unpacked(file: &[u8]) -> Result<usize, String> {
        let home = tempfile::tempdir().expect("a directory");
        let dir = home.path().join("into");
        fs::create_dir(&dir).expect("a directory");
        let session = SessionFile::open(file).map_err(|error| error.to_string())?;
        if session.header != header() {
            return Ok(usize::MAX);
        }
        session.unpack(&open_last_dir(&dir).expect("a directory"), 4, 10).map_err(|error| error.to_string())?;
        assert_eq!(fs::read_to_string(dir.join("work/a/b")).expect("it is there"), "text");
        Ok(fs::metadata(dir.join("pages.bin")).expect("it is there").len() as usize)
    }

    #[test]
    fn files_round_trip() {
        for pages in [0, 4096, 3_000_000] {
            assert_eq!(unpacked(&packed(pages)), Ok(pages));
        }
    }

    #[test]
    fn every_damage_is_detected() {
        let file = packed(20_000);
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 1;
            let session = SessionFile::open(damaged.as_slice());
            let into = tempfile::tempdir().expect("a directory");
            let into = open_last_dir(into.path()).expect("a directory");
            // A header that is malformed is refused before, and every other change by the checksum at the latest.
            let refused = session.and_then(|session| session.unpack(&into, 4, 10));
            assert!(refused.is_err(), "byte {at} of {}", file.len());
        }
        for length in 0..file.len() {
            let error = unpacked(&file[..length]).expect_err("it is incomplete");
            assert!(error.starts_with("cannot import the session: "), "{length}: {error}");
        }
        let longer = [file.as_slice(), b"x"].concat();
        assert!(unpacked(&longer).expect_err("it is longer").contains("checksum"));
    }

    #[test]
    fn other_files_and_forms_are_named() {
        let error = |file: &[u8]| unpacked(file).expect_err("it is refused");
        assert!(error(b"PK").contains("not a file of `codebox session export`"));
        assert!(error(&[b'x'; 1000]).contains("not a file of `codebox session export`"));
        let mut newer = packed(1);
        newer[MAGIC.len()] = b'2';
        assert!(error(&newer).contains("version 2, and this codebox reads version 1"), "{}", error(&newer));
        let mut long = packed(1);
        long[MAGIC.len() + VERSION.len()..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(error(&long).contains("header is too long"));
    }

    /// A small file that unpacks to far more than is allowed.
    #[test]
    fn unpacked_size_is_limited() {
        let file = packed(64 << 20);
        assert!(file.len() < 1 << 20);
        let unpack = |max_bytes, max_entries| {
            let into = tempfile::tempdir().expect("a directory");
            let session = SessionFile::open(file.as_slice()).expect("a session");
            session.unpack(&open_last_dir(into.path()).expect("a directory"), max_bytes, max_entries)
        };
        assert!(unpack(4, 2).is_ok());
        assert!(unpack(3, 2).expect_err("it is refused").to_string().contains("work/a/b: the files are too large"));
        assert!(unpack(4, 1).expect_err("it is refused").to_string().contains("too many"));
    }
}
