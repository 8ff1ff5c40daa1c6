//! A component's open files and directories: the mount of each, and the permission to change files below it.

use std::collections::HashMap;

use codebox_core::Access;
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

use crate::component::devices::{self, VirtualFile};
use crate::mounts::{FinalSymlink, Mount, MountGuard};

/// Maximum number of concurrent directory listings. A program that walks down a tree has one for each level.
const MAX_LISTINGS: usize = 64;

/// One open file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenDescriptor {
    /// The mount that contains the file or directory. `None` for the root.
    pub mount: Option<usize>,
    /// True for the mount's own directory, false for files and directories that the guest opened below it.
    pub is_mount_root: bool,
    /// The virtual file behind this descriptor. `None` for files on disk.
    pub virtual_file: Option<VirtualFile>,
}

/// The open files and directories of one guest, by their handles.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    guards: Vec<Option<MountGuard>>,
    /// The mount of a directory after those of all mounts.
    last: Option<usize>,
    opened: HashMap<u32, OpenDescriptor>,
    listings: usize,
}

impl Descriptors {
    /// Creates the table for a guest with these mounts, without open files. `last` is the mount to which relative paths lead.
    ///
    /// # Errors
    /// The system's error if a directory that needs a guard cannot be opened.
    pub(crate) fn new(mounts: &[Mount], last: Option<usize>) -> std::io::Result<Self> {
        let guards = mounts.iter().map(|mount| MountGuard::for_mount(mount, mounts)).collect::<Result<_, _>>()?;
        Ok(Self { guards, last, opened: HashMap::new(), listings: 0 })
    }

    /// Returns the mount of the preopened directory of this number: the root comes first, then the mounts in their order, and then that of
    /// relative paths, if there is one.
    pub(crate) fn preopened(&self, number: usize) -> Option<usize> {
        let index = number.checked_sub(1)?;
        if index < self.guards.len() { Some(index) } else { self.last }
    }

    /// Adds a handle.
    pub(crate) fn insert(&mut self, handle: u32, opened: OpenDescriptor) {
        self.opened.insert(handle, opened);
    }

    /// Removes a handle and returns its entry.
    pub(crate) fn remove(&mut self, handle: u32) -> Option<OpenDescriptor> {
        self.opened.remove(&handle)
    }

    /// Starts a listing. Returns false if the maximum number of listings is reached.
    pub(crate) fn begin_listing(&mut self) -> bool {
        let more = self.listings < MAX_LISTINGS;
        self.listings += usize::from(more);
        more
    }

    /// Ends a listing.
    pub(crate) fn end_listing(&mut self) {
        self.listings = self.listings.saturating_sub(1);
    }

    /// Returns the virtual file of a handle. `None` for files on disk.
    pub(crate) fn virtual_file(&self, handle: u32) -> Option<VirtualFile> {
        self.opened.get(&handle).and_then(|opened| opened.virtual_file)
    }

    /// Resolves a path relative to a handle to a virtual file. `None` if the path does not lead to `/dev`.
    pub(crate) fn find_virtual(&self, handle: u32, path: &str) -> Option<Result<VirtualFile, ErrorCode>> {
        let opened = self.opened.get(&handle)?;
        devices::resolve_virtual(opened.virtual_file, opened.is_mount_root && opened.mount.is_none(), path)
    }

    /// Returns the mount that contains the file or directory of a handle.
    pub(crate) fn mount(&self, handle: u32) -> Option<usize> {
        self.opened.get(&handle).and_then(|opened| opened.mount)
    }

    /// Checks that a change is allowed at `path`, relative to a handle.
    ///
    /// # Errors
    /// [`ErrorCode::ReadOnly`] if the change could reach a read-only grant inside a writable one.
    pub(crate) fn check_change(&self, handle: u32, path: &str, final_symlink: FinalSymlink) -> FsResult<()> {
        let Some(opened) = self.opened.get(&handle) else { return Ok(()) };
        let guard = opened.mount.and_then(|mount| self.guards.get(mount)).and_then(Option::as_ref);
        match guard {
            // The path of a directory opened below a guarded mount is unknown, so every change through it is refused.
            Some(guard) if !opened.is_mount_root || !guard.allows(path, final_symlink) => {
                Err(ErrorCode::ReadOnly.into())
            }
            _ => Ok(()),
        }
    }
}

/// Returns the permissions with which a mount's directory is opened.
pub(crate) fn perms(access: Access) -> wasmtime_wasi::FsPerms {
    match access {
        Access::ReadOnly => wasmtime_wasi::FsPerms::ReadOnly,
        Access::ReadWrite => wasmtime_wasi::FsPerms::ReadWrite,
    }
}
