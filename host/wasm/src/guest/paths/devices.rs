//! Paths of virtual devices and directories.

use wasmtime_wasi::p1::wasi_snapshot_preview1 as wasi;
use wiggle::GuestMemory;

use super::{FD_READ, FD_WRITE, O_CREAT, O_DIRECTORY, O_EXCL, write_i32};
use crate::devices::{LookupError, Node};
use crate::guest::descriptors::{Kind, OpenFile, device_stat, directory_stat, write_stat};
use crate::guest::{Guest, errno};

/// Returns the virtual file at a path.
///
/// # Errors
/// The error number for the guest, if the file does not exist.
pub(super) fn resolve_existing(guest: &Guest, node: Result<Node, LookupError>) -> Result<Node, i32> {
    let node = node.map_err(|error| match error {
        LookupError::NotFound => errno::NOENT,
        LookupError::NotADirectory => errno::NOTDIR,
    })?;
    match node {
        Node::Descriptor(fd) if guest.descriptors.get(fd).is_err() => Err(errno::NOENT),
        node => Ok(node),
    }
}

/// Returns the error number for creating a file or directory in `/dev`.
pub(super) fn creation_errno(guest: &Guest, node: Result<Node, LookupError>) -> i32 {
    match resolve_existing(guest, node) {
        Ok(_) => errno::EXIST,
        Err(errno::NOENT) => errno::ACCES,
        Err(refused) => refused,
    }
}

/// Writes the status of a virtual file.
pub(super) async fn device_filestat(
    memory: &mut GuestMemory<'_>,
    guest: &mut Guest,
    node: Result<Node, LookupError>,
    out: i32,
) -> wasmtime::Result<i32> {
    let stat = match resolve_existing(guest, node) {
        Ok(Node::Device(device)) => device_stat(device),
        Ok(Node::Directory(directory)) => directory_stat(directory),
        Ok(Node::Descriptor(fd)) => match guest.descriptors.get(fd) {
            Ok(file) => match (&file.kind, file.stat()) {
                (Kind::Wasi(wasi_fd), _) => {
                    let wasi_fd = *wasi_fd;
                    return wasi::fd_filestat_get(&mut guest.wasi, memory, wasi_fd, out).await;
                }
                (_, Some(stat)) => stat,
                (_, None) => return Ok(errno::NOENT),
            },
            Err(_) => return Ok(errno::NOENT),
        },
        Err(refused) => return Ok(refused),
    };
    Ok(write_stat(memory, out, stat))
}

/// Opens a virtual file, or duplicates a descriptor by its path.
pub(super) fn open_device(
    memory: &mut GuestMemory<'_>,
    guest: &mut Guest,
    node: Result<Node, LookupError>,
    oflags: i32,
    rights: i64,
    out: i32,
) -> i32 {
    let GuestMemory::Unshared(bytes) = memory else { return errno::FAULT };
    let node = match resolve_existing(guest, node) {
        Ok(_) if oflags & O_CREAT != 0 && oflags & O_EXCL != 0 => return errno::EXIST,
        Ok(node) => node,
        Err(errno::NOENT) if oflags & O_CREAT != 0 => return errno::ACCES,
        Err(refused) => return refused,
    };
    let (readable, writable) = (rights & FD_READ != 0, rights & FD_WRITE != 0);
    let file = match node {
        Node::Directory(_) if writable || oflags & O_CREAT != 0 => return errno::ISDIR,
        Node::Directory(directory) => OpenFile::new(Kind::Directory(directory), true, false),
        _ if oflags & O_DIRECTORY != 0 => return errno::NOTDIR,
        Node::Device(device) => OpenFile::new(Kind::Device(device), readable, writable),
        Node::Descriptor(fd) => match guest.descriptors.get(fd) {
            Ok(file) if readable && !file.readable || writable && !file.writable => return errno::ACCES,
            Ok(file) => file.clone(),
            Err(_) => return errno::NOENT,
        },
    };
    if guest.quota.open().is_err() {
        return errno::MFILE;
    }
    let opened = guest.descriptors.insert(file).map_or_else(|refused| refused, |fd| write_i32(bytes, out, fd));
    if opened != errno::SUCCESS {
        guest.quota.close();
    }
    opened
}
