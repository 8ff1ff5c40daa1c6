//! The descriptor table of a guest: numbers and their open files.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::devices::{Device, Directory};
use crate::guest::descriptors::pipe::{PipeEnd, pipe};
use crate::guest::errno;
use crate::mounts::ROOT_FD;

/// Maximum number of open descriptors, independent of the guest's limits. It bounds the host memory of the table.
const MAX_OPEN: usize = 8192;

/// End of the descriptor numbers that a guest may choose, exclusive.
const FD_LIMIT: i32 = 1 << 20;

/// Maximum number of open pipes. It bounds the bytes in them.
const MAX_PIPES: usize = 128;

/// Inode numbers of pipes are greater than this number. Devices have lower numbers.
const FIRST_PIPE_INODE: u64 = 1000;

/// The descriptor flags of WASI that are supported here.
pub(crate) const APPEND: u16 = 1;
pub(crate) const NONBLOCK: u16 = 4;

/// A standard stream of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Input,
    Output,
    Error,
}

/// An open file description, as in POSIX. Duplicates of a descriptor share it.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub kind: Kind,
    pub readable: bool,
    pub writable: bool,
    /// True for a stream that is a terminal.
    pub is_terminal: bool,
    /// Path under which the guest opened the file, for messages.
    path: Option<Box<str>>,
    flags: AtomicU16,
}

/// The kinds of open files.
#[derive(Debug)]
pub(crate) enum Kind {
    /// A file or directory of a mount, with its descriptor of `wasmtime-wasi`.
    Wasi(i32),
    Stream(Stream),
    Device(Device),
    Directory(Directory),
    Pipe(PipeEnd),
}

impl OpenFile {
    /// Creates an open file that can be read, written or both.
    pub(crate) fn new(kind: Kind, readable: bool, writable: bool) -> Arc<Self> {
        Arc::new(Self { kind, readable, writable, is_terminal: false, path: None, flags: AtomicU16::new(0) })
    }

    /// Creates an open file of a mount, with the path under which the guest opened it.
    pub(crate) fn at_path(wasi_fd: i32, path: &[u8]) -> Arc<Self> {
        let path = Some(String::from_utf8_lossy(path).into());
        let kind = Kind::Wasi(wasi_fd);
        Arc::new(Self { kind, readable: true, writable: true, is_terminal: false, path, flags: AtomicU16::new(0) })
    }

    /// Describes the file in a message.
    fn describe(&self) -> String {
        match (&self.kind, &self.path) {
            (Kind::Wasi(_), Some(path)) => format!("the file {path:?}"),
            (Kind::Pipe(_), _) => "a pipe".to_owned(),
            (Kind::Stream(stream), _) => format!("a duplicate of the stream {stream:?}").to_lowercase(),
            _ => "a device or a directory".to_owned(),
        }
    }

    pub(crate) fn flags(&self) -> u16 {
        self.flags.load(Ordering::Relaxed)
    }

    pub(crate) fn set_flags(&self, flags: u16) {
        self.flags.store(flags & (APPEND | NONBLOCK), Ordering::Relaxed);
    }

    /// Returns true unless the guest has set the non-blocking flag.
    pub(crate) fn is_blocking(&self) -> bool {
        self.flags() & NONBLOCK == 0
    }
}

/// An open file of a descriptor. `counted` is true if the descriptor counts as opened by the guest.
#[derive(Debug)]
struct Entry {
    file: Arc<OpenFile>,
    counted: bool,
}

/// The descriptors of one guest.
#[derive(Debug)]
pub(crate) struct DescriptorTable {
    entries: BTreeMap<i32, Entry>,
    /// Number of pipes created so far.
    pipes: u64,
}

/// A descriptor that was removed from the table.
pub(crate) struct RemovedDescriptor {
    /// The open file's descriptor of `wasmtime-wasi`, if this was the last reference to the file.
    pub to_close: Option<i32>,
    /// True if the descriptor counted as opened by the guest.
    pub counted: bool,
}

impl DescriptorTable {
    /// Creates a guest's initial table: the three standard streams, which can be a terminal, and the root directory.
    pub(crate) fn new(is_terminal: bool) -> Self {
        let stream = |stream, readable| {
            let (kind, path, flags) = (Kind::Stream(stream), None, AtomicU16::new(0));
            Arc::new(OpenFile { kind, readable, writable: !readable, is_terminal, path, flags })
        };
        let files = [
            (0, stream(Stream::Input, true)),
            (1, stream(Stream::Output, false)),
            (2, stream(Stream::Error, false)),
            (ROOT_FD, OpenFile::new(Kind::Wasi(ROOT_FD), true, false)),
        ];
        Self { entries: files.into_iter().map(|(fd, file)| (fd, Entry { file, counted: false })).collect(), pipes: 0 }
    }

    /// Returns the open file of a descriptor.
    ///
    /// # Errors
    /// [`errno::BADF`] if the descriptor is not open.
    pub(crate) fn get(&self, fd: i32) -> Result<&Arc<OpenFile>, i32> {
        self.entries.get(&fd).map(|entry| &entry.file).ok_or(errno::BADF)
    }

    /// Returns the numbers in use, in ascending order.
    pub(crate) fn fds(&self) -> impl Iterator<Item = i32> + '_ {
        self.entries.keys().copied()
    }

    /// Describes the files that the guest has opened, and the standard streams that it has closed or replaced.
    pub(crate) fn describe_changes(&self) -> impl Iterator<Item = String> + '_ {
        let streams = [(0, Stream::Input), (1, Stream::Output), (2, Stream::Error)];
        let is_own = move |fd: i32, file: &OpenFile| match file.kind {
            Kind::Stream(stream) => streams.contains(&(fd, stream)),
            _ => fd == ROOT_FD,
        };
        let opened = self.entries.iter().filter(move |(fd, entry)| !is_own(**fd, &entry.file));
        let closed = streams.into_iter().filter(|(fd, _)| !self.entries.contains_key(fd));
        let closed = closed.map(|(fd, _)| format!("descriptor {fd}, which is closed"));
        opened.map(|(fd, entry)| format!("{} (descriptor {fd})", entry.file.describe())).chain(closed)
    }

    /// Returns true if a guest may neither close nor replace a descriptor: its C library resolves all paths through it.
    pub(crate) fn is_fixed(fd: i32) -> bool {
        fd == ROOT_FD
    }

    /// Returns true if one more descriptor fits.
    pub(crate) fn has_space(&self) -> bool {
        self.entries.len() < MAX_OPEN
    }

    /// Adds an open file under the lowest free number.
    ///
    /// # Errors
    /// [`errno::MFILE`] if the table is full.
    pub(crate) fn insert(&mut self, file: Arc<OpenFile>) -> Result<i32, i32> {
        if !self.has_space() {
            return Err(errno::MFILE);
        }
        let free = self.entries.keys().zip(0..).find(|(used, number)| *used != number).map(|(_, number)| number);
        let fd = free.unwrap_or(self.entries.len() as i32);
        self.entries.insert(fd, Entry { file, counted: true });
        Ok(fd)
    }

    /// Adds an open file under a number and returns the file that it replaces.
    ///
    /// # Errors
    /// [`errno::BADF`] for a number that guests may not choose, [`errno::MFILE`] if the table is full.
    pub(crate) fn replace(&mut self, fd: i32, file: Arc<OpenFile>) -> Result<Option<RemovedDescriptor>, i32> {
        if !(0..FD_LIMIT).contains(&fd) || Self::is_fixed(fd) {
            return Err(errno::BADF);
        }
        if !self.entries.contains_key(&fd) && !self.has_space() {
            return Err(errno::MFILE);
        }
        Ok(self.entries.insert(fd, Entry { file, counted: true }).map(RemovedDescriptor::from))
    }

    /// Removes a descriptor.
    ///
    /// # Errors
    /// [`errno::BADF`] if the descriptor is not open or cannot be closed.
    pub(crate) fn remove(&mut self, fd: i32) -> Result<RemovedDescriptor, i32> {
        if Self::is_fixed(fd) {
            return Err(errno::BADF);
        }
        self.entries.remove(&fd).map(RemovedDescriptor::from).ok_or(errno::BADF)
    }

    /// Creates a pipe and returns the open files of its ends, the read end first.
    ///
    /// # Errors
    /// [`errno::NFILE`] if the guest has too many pipes.
    pub(crate) fn make_pipe(&mut self) -> Result<[Arc<OpenFile>; 2], i32> {
        // Every duplicate of an end counts too, so the limit may be reached with fewer than `MAX_PIPES` pipes.
        let ends = self.entries.values().filter(|entry| matches!(entry.file.kind, Kind::Pipe(_))).count();
        if ends >= 2 * MAX_PIPES {
            return Err(errno::NFILE);
        }
        self.pipes += 1;
        let (reader, writer) = pipe(FIRST_PIPE_INODE + self.pipes);
        Ok([OpenFile::new(Kind::Pipe(reader), true, false), OpenFile::new(Kind::Pipe(writer), false, true)])
    }
}

impl From<Entry> for RemovedDescriptor {
    fn from(Entry { file, counted }: Entry) -> Self {
        let to_close = match Arc::into_inner(file) {
            Some(OpenFile { kind: Kind::Wasi(wasi_fd), .. }) => Some(wasi_fd),
            _ => None,
        };
        Self { to_close, counted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn null() -> Arc<OpenFile> {
        OpenFile::new(Kind::Device(Device::Null), true, true)
    }

    #[test]
    fn assigns_lowest_free_fd() {
        let mut table = DescriptorTable::new(false);
        assert_eq!(table.insert(null()), Ok(4));
        assert_eq!(table.insert(null()), Ok(5));
        assert!(table.remove(1).is_ok());
        assert_eq!(table.insert(null()), Ok(1));
        assert_eq!(table.insert(null()), Ok(6));
        assert!(table.replace(100, null()).is_ok_and(|old| old.is_none()));
        assert_eq!(table.insert(null()), Ok(7));
    }

    #[test]
    fn rejects_root_and_out_of_range_fds() {
        let mut table = DescriptorTable::new(false);
        assert!(table.remove(ROOT_FD).is_err());
        for fd in [-1, ROOT_FD, FD_LIMIT, i32::MAX, i32::MIN] {
            assert!(table.replace(fd, null()).is_err(), "{fd}");
        }
    }

    #[test]
    fn closes_file_with_last_descriptor() {
        let mut table = DescriptorTable::new(false);
        let file = OpenFile::new(Kind::Wasi(9), true, false);
        let first = table.insert(file.clone()).expect("a descriptor is free");
        let second = table.insert(file).expect("a descriptor is free");
        assert_eq!(table.remove(first).expect("it is there").to_close, None);
        assert_eq!(table.remove(second).expect("it is there").to_close, Some(9));
    }

    #[test]
    fn limits_open_descriptors() {
        let mut table = DescriptorTable::new(false);
        let file = null();
        while table.insert(file.clone()).is_ok() {}
        assert_eq!(table.fds().count(), MAX_OPEN);
        assert!(matches!(table.replace(FD_LIMIT - 1, file), Err(errno::MFILE)));
    }

    #[test]
    fn limits_pipes() {
        let mut table = DescriptorTable::new(false);
        for _ in 0..MAX_PIPES {
            for end in table.make_pipe().expect("fewer than the bound") {
                table.insert(end).expect("a descriptor is free");
            }
        }
        assert!(matches!(table.make_pipe(), Err(errno::NFILE)));
    }
}
