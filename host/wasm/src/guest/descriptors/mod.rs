//! A guest's descriptors: the numbers that it knows, in front of those of wasmtime's system interface.
//!
//! Every function of the interface that takes a descriptor is defined here or in [`paths`](super::paths). It looks the
//! guest's number up; files and directories of mounts are then left to the function that it stands in front of, and
//! streams, devices and pipes are served here. A number of the interface behind, such as a mount's, is no number of the
//! guest's.

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
use table::Removed;

pub(crate) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    calls::link(linker)?;
    streams::link(linker)?;
    poll::link(linker)
}

/// Does what is left to do for a descriptor that was taken out of the table, and returns an error number.
pub(crate) async fn release(guest: &mut Guest, removed: Removed) -> wasmtime::Result<i32> {
    if removed.counted {
        guest.quota.close();
    }
    let Some(behind) = removed.to_close else { return Ok(errno::SUCCESS) };
    guest.listings.forget(behind);
    guest.mounts.closed(behind);
    // The call has no argument in memory.
    wasi::fd_close(&mut guest.wasi, &mut GuestMemory::Unshared(&mut []), behind).await
}
