//! Bounds-checked access to a guest's memory from host functions.

use wasmtime::{Caller, Extern, Memory};
use wiggle::GuestMemory;

use crate::guest::Guest;

/// Maximum bytes that one host call may allocate on the host for a guest.
const HOSTCALL_FUEL: usize = 16 << 20;

/// Maximum bytes of one read or write. A longer one is done in part, as POSIX permits.
pub(crate) const MAX_TRANSFER: u32 = 8 << 20;

/// Returns the guest's memory.
pub(crate) fn memory(caller: &mut Caller<'_, Guest>) -> wasmtime::Result<Memory> {
    match caller.get_export("memory") {
        Some(Extern::Memory(memory)) => Ok(memory),
        _ => Err(wasmtime::Error::msg("the guest exports no memory")),
    }
}

/// Splits a call's context into the guest's memory and its state, as `wasmtime-wasi` needs them.
pub(crate) fn split<'a>(caller: &'a mut Caller<'_, Guest>) -> wasmtime::Result<(GuestMemory<'a>, &'a mut Guest)> {
    use wasmtime_wasi::p1::wasi_snapshot_preview1::WasiSnapshotPreview1;
    let (bytes, guest) = memory(caller)?.data_and_store_mut(caller);
    guest.wasi.set_hostcall_fuel(HOSTCALL_FUEL);
    Ok((GuestMemory::Unshared(bytes), guest))
}

/// Returns the range of the `len` bytes at `ptr`, or `None` if they are not all inside the memory.
pub(crate) fn range(bytes: &[u8], ptr: i32, len: i32) -> Option<std::ops::Range<usize>> {
    let start = ptr as u32 as usize;
    let end = start.checked_add(len as u32 as usize)?;
    (end <= bytes.len()).then_some(start..end)
}

/// Returns the little-endian 32-bit number at an offset.
pub(crate) fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// Maximum number of buffers in one scatter or gather list: `IOV_MAX` of Linux.
///
/// The host copies the list before it accesses the buffers. Without this limit, one call of a guest could occupy the
/// host for seconds and allocate as much as the guest has memory.
pub(crate) const MAX_IOVECS: u32 = 1024;

/// Returns true if a list has more buffers than a system accepts. The call then fails with `EINVAL`.
pub(crate) fn exceeds_max_iovecs(count: i32) -> bool {
    count as u32 > MAX_IOVECS
}

/// Returns the buffers of a scatter or gather list: `count` pairs of address and length at `ptr`.
pub(crate) fn iovecs(bytes: &[u8], ptr: i32, count: i32) -> Option<Vec<std::ops::Range<usize>>> {
    let list = range(bytes, ptr, (count as u32).checked_mul(8)? as i32)?;
    bytes[list].chunks_exact(8).map(|pair| range(bytes, read_u32(pair, 0)? as i32, read_u32(pair, 4)? as i32)).collect()
}

/// A buffer list whose first buffer is shortened for the duration of a call.
pub(crate) struct ShortenedIovecs(Option<(usize, u32)>);

impl ShortenedIovecs {
    /// Limits the first buffer that is not empty, the only one that `wasmtime-wasi` uses, to [`MAX_TRANSFER`].
    ///
    /// The host copies the buffer within [`HOSTCALL_FUEL`]: a longer buffer would fail as out of memory.
    pub(crate) fn new(memory: &mut GuestMemory<'_>, ptr: i32, count: i32) -> Self {
        let GuestMemory::Unshared(bytes) = memory else { return Self(None) };
        let Some(list) = (count as u32).checked_mul(8).and_then(|len| range(bytes, ptr, len as i32)) else {
            return Self(None);
        };
        let first = list.step_by(8).map(|at| at + 4).find(|at| read_u32(bytes, *at).is_some_and(|len| len > 0));
        let long = first.and_then(|at| Some((at, read_u32(bytes, at)?))).filter(|(_, len)| *len > MAX_TRANSFER);
        if let Some((at, _)) = long {
            bytes[at..at + 4].copy_from_slice(&MAX_TRANSFER.to_le_bytes());
        }
        Self(long)
    }

    /// Restores the guest's own length.
    pub(crate) fn restore(self, memory: &mut GuestMemory<'_>) {
        if let (Some((at, len)), GuestMemory::Unshared(bytes)) = (self.0, memory) {
            bytes[at..at + 4].copy_from_slice(&len.to_le_bytes());
        }
    }
}
