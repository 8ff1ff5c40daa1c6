//! A guest's descriptors: the guest's own numbers, in front of those of `wasmtime-wasi`.
//!
//! Every WASI function that takes a descriptor is defined here or in [`paths`](super::paths) and resolves the guest's
//! number. Calls for files and directories of mounts are then delegated to the function of `wasmtime-wasi`; streams,
//! devices and pipes are served here. A descriptor of `wasmtime-wasi`, such as a mount's, is not valid as a number of
//! the guest.

mod calls;
mod pipe;
mod poll;
mod requests;
mod stat;
mod streams;
mod table;

pub(crate) use calls::touch;
pub(crate) use requests::{answer, parse};
pub(crate) use stat::{device_stat, directory_stat, write_stat};
pub(crate) use streams::Flood;
pub(crate) use table::{DescriptorTable, Kind, OpenFile};

use wasmtime::Linker;
use wasmtime_wasi::p1::wasi_snapshot_preview1 as wasi;
use wiggle::GuestMemory;

use crate::guest::{Guest, errno};
use table::RemovedDescriptor;

pub(crate) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    calls::link(linker)?;
    streams::link(linker)?;
    poll::link(linker)
}

/// Releases the resources of a descriptor that was removed from the table, and returns an error number.
pub(crate) async fn release(guest: &mut Guest, removed: RemovedDescriptor) -> wasmtime::Result<i32> {
    if removed.counted {
        guest.quota.close();
    }
    let Some(wasi_fd) = removed.to_close else { return Ok(errno::SUCCESS) };
    guest.listings.discard(wasi_fd);
    guest.mounts.record_close(wasi_fd);
    // The call has no argument in the guest's memory.
    wasi::fd_close(&mut guest.wasi, &mut GuestMemory::Unshared(&mut []), wasi_fd).await
}
