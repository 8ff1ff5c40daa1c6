//! Directory listings, which are read once and kept while the guest iterates over them.
//!
//! WASI returns a listing in pieces, and `wasmtime-wasi` reads the whole directory for each piece. A C library requests
//! pieces of a few kilobytes, so the time would grow with the square of the number of names.

use std::collections::BTreeMap;

use wasmtime_wasi::p1::wasi_snapshot_preview1 as wasi;
use wiggle::GuestMemory;

use crate::devices::{self, Directory, Node};
use crate::guest::descriptors::device_stat;
use crate::guest::memory::{range, read_u32};
use crate::guest::{Guest, errno};

/// Bytes of an entry before its name: the cookie of the next entry, the inode number, the length of the name and the
/// file type.
const DIRENT_SIZE: usize = 24;
const NAME_LEN_OFFSET: usize = 16;

/// WASI's file types for directories and for files of unknown type.
const UNKNOWN: u8 = 0;
const DIRECTORY: u8 = 3;

/// Bytes requested at once.
const CHUNK_SIZE: usize = 1 << 20;
/// Maximum bytes kept for one guest. Larger listings are passed through without a copy.
const MAX_LISTING_BYTES: usize = 32 << 20;
/// Maximum number of directories listed at the same time.
const MAX_LISTINGS: usize = 16;

/// The directories that a guest is listing, by descriptor.
#[derive(Debug, Default)]
pub(crate) struct Listings(BTreeMap<i32, Listing>);

/// A directory's entries in WASI's format, and the offset of each.
#[derive(Debug, Default)]
struct Listing {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

impl Listings {
    /// Discards the listing of a descriptor that now refers to another file.
    pub(crate) fn discard(&mut self, fd: i32) {
        self.0.remove(&fd);
    }

    fn remaining_capacity(&self) -> usize {
        let kept: usize = self.0.values().map(|listing| listing.bytes.len()).sum();
        if self.0.len() < MAX_LISTINGS { MAX_LISTING_BYTES.saturating_sub(kept) } else { 0 }
    }
}

impl Listing {
    /// Appends the whole entries of a piece with consecutive cookies, and returns the original cookie of the last one.
    fn append(&mut self, piece: &[u8]) -> Option<u64> {
        let (mut at, mut last) = (0, None);
        while let Some(header) = piece.get(at..at + DIRENT_SIZE) {
            let len = read_u32(header, NAME_LEN_OFFSET)? as usize;
            let Some(entry) = piece.get(at..at + DIRENT_SIZE + len) else { break };
            last = Some(u64::from_le_bytes(header[..8].try_into().ok()?));
            self.starts.push(self.bytes.len());
            self.bytes.extend_from_slice(&(self.starts.len() as u64).to_le_bytes());
            self.bytes.extend_from_slice(&entry[8..]);
            at += entry.len();
        }
        last
    }

    /// Appends an entry of a virtual directory.
    fn push(&mut self, name: &str, file_type: u8) {
        self.starts.push(self.bytes.len());
        let next = self.starts.len() as u64;
        self.bytes.extend_from_slice(&next.to_le_bytes());
        // C libraries treat a file with inode number 0 as deleted.
        self.bytes.extend_from_slice(&next.to_le_bytes());
        self.bytes.extend_from_slice(&(name.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&[file_type, 0, 0, 0]);
        self.bytes.extend_from_slice(name.as_bytes());
    }

    /// Returns at most `len` bytes, starting at the entry that the cookie selects.
    fn from(&self, cookie: u64, len: usize) -> &[u8] {
        let start = usize::try_from(cookie).ok().and_then(|index| self.starts.get(index).copied());
        let rest = &self.bytes[start.unwrap_or(self.bytes.len())..];
        &rest[..len.min(rest.len())]
    }
}

/// Writes a piece of a directory's listing to the guest's memory.
pub(crate) async fn readdir(
    memory: &mut GuestMemory<'_>,
    guest: &mut Guest,
    fd: i32,
    buf: i32,
    buf_len: i32,
    cookie: i64,
    out: i32,
) -> wasmtime::Result<i32> {
    if cookie == 0 {
        guest.listings.discard(fd);
        match read(guest, fd).await? {
            Ok(Some(listing)) => drop(guest.listings.0.insert(fd, listing)),
            Ok(None) => {}
            Err(refused) => return Ok(refused),
        }
    }
    let Some(listing) = guest.listings.0.get(&fd) else {
        return wasi::fd_readdir(&mut guest.wasi, memory, fd, buf, buf_len, cookie, out).await;
    };
    Ok(write_entries(memory, listing, buf, buf_len, cookie, out))
}

/// Writes a piece of a virtual directory's listing to the guest's memory.
pub(crate) fn devices(
    memory: &mut GuestMemory<'_>,
    guest: &Guest,
    directory: Directory,
    buf: i32,
    buf_len: i32,
    cookie: i64,
    out: i32,
) -> i32 {
    let mut listing = Listing::default();
    for name in [".", ".."] {
        listing.push(name, DIRECTORY);
    }
    match directory {
        Directory::Devices => {
            for (name, node) in devices::NAMES {
                listing.push(name, file_type(guest, node));
            }
        }
        Directory::Descriptors => {
            for fd in guest.descriptors.fds() {
                listing.push(&fd.to_string(), file_type(guest, Node::Descriptor(fd)));
            }
        }
    }
    write_entries(memory, &listing, buf, buf_len, cookie, out)
}

fn file_type(guest: &Guest, node: Node) -> u8 {
    match node {
        Node::Directory(_) => DIRECTORY,
        Node::Device(device) => device_stat(device).file_type,
        Node::Descriptor(fd) => {
            let file = guest.descriptors.get(fd).ok();
            file.and_then(|file| file.stat()).map_or(UNKNOWN, |stat| stat.file_type)
        }
    }
}

fn write_entries(
    memory: &mut GuestMemory<'_>,
    listing: &Listing,
    buf: i32,
    buf_len: i32,
    cookie: i64,
    out: i32,
) -> i32 {
    let GuestMemory::Unshared(bytes) = memory else { return errno::FAULT };
    let (Some(into), Some(used)) = (range(bytes, buf, buf_len), range(bytes, out, 4)) else {
        return errno::FAULT;
    };
    let piece = listing.from(cookie as u64, into.len());
    bytes[into.start..into.start + piece.len()].copy_from_slice(piece);
    bytes[used].copy_from_slice(&(piece.len() as u32).to_le_bytes());
    errno::SUCCESS
}

/// Reads a whole directory. Returns `None` if it is too large to keep, or the error number for the guest.
async fn read(guest: &mut Guest, fd: i32) -> wasmtime::Result<Result<Option<Listing>, i32>> {
    let remaining_capacity = guest.listings.remaining_capacity();
    let mut listing = Listing::default();
    let mut scratch = vec![0; CHUNK_SIZE + 4];
    let mut cookie = 0;
    loop {
        let mut memory = GuestMemory::Unshared(&mut scratch);
        let at = CHUNK_SIZE as i32;
        let result = wasi::fd_readdir(&mut guest.wasi, &mut memory, fd, 0, at, cookie, at).await?;
        if result != errno::SUCCESS {
            return Ok(Err(result));
        }
        let used = read_u32(&scratch, CHUNK_SIZE).unwrap_or(0) as usize;
        let next = listing.append(&scratch[..used.min(CHUNK_SIZE)]);
        if listing.bytes.len() > remaining_capacity {
            return Ok(Ok(None));
        }
        match next {
            // A piece that is not full is the last one.
            Some(next) if used == CHUNK_SIZE => cookie = next as i64,
            _ => return Ok(Ok(Some(listing))),
        }
    }
}
