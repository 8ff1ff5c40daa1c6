//! What a component's open files and directories are: in which mount, and whether they may be changed.

use std::collections::HashMap;

use codebox_core::Access;
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

use crate::component::devices::{self, VirtualFile};
use crate::mounts::{Guard, Last, Mount};

/// Directories that may be listed at the same time. A program that walks down a tree has one for each level.
const MOST_LISTINGS: usize = 64;

/// One open file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Opened {
    /// The mount that it is in; none for the root.
    pub mount: Option<usize>,
    /// Whether it is the mount's own directory, and not one that the guest opened below.
    pub own: bool,
    /// The virtual file that it is, if it is one.
    pub virtual_file: Option<VirtualFile>,
}

/// The open files and directories of one guest, by their handles.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    guards: Vec<Option<Guard>>,
    opened: HashMap<u32, Opened>,
    listings: usize,
}

impl Descriptors {
    /// Those of a guest with these mounts, none opened yet.
    ///
    /// # Errors
    /// The system's, when a directory that has to be guarded cannot be opened.
    pub(crate) fn new(mounts: &[Mount]) -> std::io::Result<Self> {
        let guards = mounts.iter().map(|mount| Guard::of(mount, mounts)).collect::<Result<_, _>>()?;
        Ok(Self { guards, opened: HashMap::new(), listings: 0 })
    }

    /// Hears of a handle.
    pub(crate) fn insert(&mut self, handle: u32, opened: Opened) {
        self.opened.insert(handle, opened);
    }

    /// Hears that a handle is gone; tells what it was.
    pub(crate) fn remove(&mut self, handle: u32) -> Option<Opened> {
        self.opened.remove(&handle)
    }

    /// Asks to list one more directory at the same time.
    pub(crate) fn begin_listing(&mut self) -> bool {
        let more = self.listings < MOST_LISTINGS;
        self.listings += usize::from(more);
        more
    }

    /// Hears that a listing is over.
    pub(crate) fn end_listing(&mut self) {
        self.listings = self.listings.saturating_sub(1);
    }

    /// The virtual file that a handle is, if it is one.
    pub(crate) fn virtual_file(&self, handle: u32) -> Option<VirtualFile> {
        self.opened.get(&handle).and_then(|opened| opened.virtual_file)
    }

    /// Finds what a path relative to a handle names, if it leads to where the devices are.
    pub(crate) fn find_virtual(&self, handle: u32, path: &str) -> Option<Result<VirtualFile, ErrorCode>> {
        let opened = self.opened.get(&handle)?;
        devices::find(opened.virtual_file, opened.own && opened.mount.is_none(), path)
    }

    /// The mount that a handle is in.
    pub(crate) fn mount(&self, handle: u32) -> Option<usize> {
        self.opened.get(&handle).and_then(|opened| opened.mount)
    }

    /// Whether a change may be made at `path`, relative to a handle.
    ///
    /// # Errors
    /// [`ErrorCode::ReadOnly`] where it could reach a read-only grant inside a writable one.
    pub(crate) fn allow_change(&self, handle: u32, path: &str, last: Last) -> FsResult<()> {
        let Some(opened) = self.opened.get(&handle) else { return Ok(()) };
        let guard = opened.mount.and_then(|mount| self.guards.get(mount)).and_then(Option::as_ref);
        match guard {
            // Where a directory below a guarded mount lies is not known any more.
            Some(guard) if !opened.own || !guard.allows(path, last) => Err(ErrorCode::ReadOnly.into()),
            _ => Ok(()),
        }
    }
}

/// How a mount's directory is opened.
pub(crate) fn perms(access: Access) -> wasmtime_wasi::FsPerms {
    match access {
        Access::ReadOnly => wasmtime_wasi::FsPerms::ReadOnly,
        Access::ReadWrite => wasmtime_wasi::FsPerms::ReadWrite,
    }
}
