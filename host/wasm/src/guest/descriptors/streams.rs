//! Reads and writes: codebox serves streams, devices and pipes itself, and writes to files count against the quota.

use std::borrow::Cow;

use codebox_streams::WriteError;
use wasmtime::{Caller, Linker};
use wasmtime_wasi::p1::wasi_snapshot_preview1 as wasi;
use wiggle::GuestMemory;

use crate::devices::Device;
use crate::guest::descriptors::table::{Kind, OpenFile, Stream};
use crate::guest::linker::WASI;
use crate::guest::memory::{MAX_TRANSFER, ShortenedIovecs, exceeds_max_iovecs, iovecs, memory, range, split};
use crate::guest::{Guest, errno};

/// Error that ends a guest which keeps on writing after its output limit.
#[derive(Debug, thiserror::Error)]
#[error("the guest kept writing after reaching its output limit")]
pub(crate) struct Flood;

/// Returns the open file of a descriptor, cloned so that the call may change the guest's state. Fails with an error
/// number, also for a list with more buffers than a system accepts.
fn file(caller: &Caller<'_, Guest>, fd: i32, buffers: i32) -> Result<std::sync::Arc<OpenFile>, i32> {
    if exceeds_max_iovecs(buffers) {
        return Err(errno::INVAL);
    }
    caller.data().descriptors.get(fd).cloned()
}

pub(crate) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        WASI,
        "fd_write",
        |mut caller: Caller<'_, Guest>, (fd, iovs, count, out): (i32, i32, i32, i32)| {
            Box::new(async move {
                let file = match file(&caller, fd, count) {
                    Ok(file) => file,
                    Err(refused) => return Ok(refused),
                };
                let wasi_fd = match file.kind {
                    Kind::Wasi(wasi_fd) => wasi_fd,
                    Kind::Stream(stream) => return write_stream(&mut caller, stream, iovs, count, out).await,
                    _ => return write_virtual(&mut caller, &file, iovs, count, out),
                };
                let (mut memory, guest) = split(&mut caller)?;
                let shortened = ShortenedIovecs::new(&mut memory, iovs, count);
                let result = if guest.quota.write(first_len(&memory, iovs, count)).is_err() {
                    Ok(errno::DQUOT)
                } else {
                    wasi::fd_write(&mut guest.wasi, &mut memory, wasi_fd, iovs, count, out).await
                };
                shortened.restore(&mut memory);
                result
            })
        },
    )?;
    linker.func_wrap_async(
        WASI,
        "fd_pwrite",
        |mut caller: Caller<'_, Guest>, (fd, iovs, count, offset, out): (i32, i32, i32, i64, i32)| {
            Box::new(async move {
                let file = match file(&caller, fd, count) {
                    Ok(file) => file,
                    Err(refused) => return Ok(refused),
                };
                let wasi_fd = match file.kind {
                    Kind::Wasi(wasi_fd) => wasi_fd,
                    Kind::Device(_) => return write_virtual(&mut caller, &file, iovs, count, out),
                    _ => return Ok(errno::SPIPE),
                };
                let (mut memory, guest) = split(&mut caller)?;
                let shortened = ShortenedIovecs::new(&mut memory, iovs, count);
                let result = if guest.quota.write(first_len(&memory, iovs, count)).is_err() {
                    Ok(errno::DQUOT)
                } else {
                    wasi::fd_pwrite(&mut guest.wasi, &mut memory, wasi_fd, iovs, count, offset, out).await
                };
                shortened.restore(&mut memory);
                result
            })
        },
    )?;
    linker.func_wrap_async(
        WASI,
        "fd_read",
        |mut caller: Caller<'_, Guest>, (fd, iovs, count, out): (i32, i32, i32, i32)| {
            Box::new(async move {
                let file = match file(&caller, fd, count) {
                    Ok(file) => file,
                    Err(refused) => return Ok(refused),
                };
                let wasi_fd = match file.kind {
                    Kind::Wasi(wasi_fd) => wasi_fd,
                    Kind::Stream(Stream::Input) => return read_stream(&mut caller, iovs, count, out).await,
                    _ => return read_virtual(&mut caller, &file, iovs, count, out),
                };
                let (mut memory, guest) = split(&mut caller)?;
                let shortened = ShortenedIovecs::new(&mut memory, iovs, count);
                let result = wasi::fd_read(&mut guest.wasi, &mut memory, wasi_fd, iovs, count, out).await;
                shortened.restore(&mut memory);
                result
            })
        },
    )?;
    linker.func_wrap_async(
        WASI,
        "fd_pread",
        |mut caller: Caller<'_, Guest>, (fd, iovs, count, offset, out): (i32, i32, i32, i64, i32)| {
            Box::new(async move {
                let file = match file(&caller, fd, count) {
                    Ok(file) => file,
                    Err(refused) => return Ok(refused),
                };
                let wasi_fd = match file.kind {
                    Kind::Wasi(wasi_fd) => wasi_fd,
                    Kind::Device(_) => return read_virtual(&mut caller, &file, iovs, count, out),
                    _ => return Ok(errno::SPIPE),
                };
                let (mut memory, guest) = split(&mut caller)?;
                let shortened = ShortenedIovecs::new(&mut memory, iovs, count);
                let result = wasi::fd_pread(&mut guest.wasi, &mut memory, wasi_fd, iovs, count, offset, out).await;
                shortened.restore(&mut memory);
                result
            })
        },
    )?;
    Ok(())
}

/// Returns the number of bytes that `wasmtime-wasi` will write: it uses the first buffer that is not empty.
fn first_len(memory: &GuestMemory<'_>, iovs: i32, count: i32) -> u64 {
    let GuestMemory::Unshared(bytes) = memory else { return 0 };
    let buffers = iovecs(bytes, iovs, count).unwrap_or_default();
    buffers.iter().map(ExactSizeIterator::len).find(|len| *len > 0).unwrap_or(0) as u64
}

/// Reads from a device or a pipe into the first buffer that is not empty.
fn read_virtual(
    caller: &mut Caller<'_, Guest>,
    file: &OpenFile,
    iovs: i32,
    count: i32,
    out: i32,
) -> wasmtime::Result<i32> {
    let bytes = memory(caller)?.data_mut(caller);
    let (Some(buffers), Some(out)) = (iovecs(bytes, iovs, count), range(bytes, out, 4)) else {
        return Ok(errno::FAULT);
    };
    let mut buffer = buffers.into_iter().find(|buffer| !buffer.is_empty()).unwrap_or(0..0);
    buffer.end = buffer.end.min(buffer.start + MAX_TRANSFER as usize);
    let read = match &file.kind {
        Kind::Directory(_) => Err(errno::ISDIR),
        _ if !file.readable => Err(errno::BADF),
        Kind::Device(device) => Ok(device.read(&mut bytes[buffer])),
        Kind::Pipe(end) => end.read(&mut bytes[buffer], file.is_blocking()),
        Kind::Wasi(_) | Kind::Stream(_) => Err(errno::BADF),
    };
    match read {
        Ok(read) => {
            bytes[out].copy_from_slice(&(read as u32).to_le_bytes());
            Ok(errno::SUCCESS)
        }
        Err(refused) => Ok(refused),
    }
}

/// Writes to a device or a pipe, one buffer after the other.
fn write_virtual(
    caller: &mut Caller<'_, Guest>,
    file: &OpenFile,
    iovs: i32,
    count: i32,
    out: i32,
) -> wasmtime::Result<i32> {
    let bytes = memory(caller)?.data_mut(caller);
    let (Some(buffers), Some(out)) = (iovecs(bytes, iovs, count), range(bytes, out, 4)) else {
        return Ok(errno::FAULT);
    };
    if !file.writable {
        return Ok(errno::BADF);
    }
    let mut written = 0usize;
    for buffer in buffers {
        let len = buffer.len();
        let result = match &file.kind {
            Kind::Device(Device::Full) if len > 0 => Err(errno::NOSPC),
            Kind::Device(_) => Ok(len),
            Kind::Pipe(end) => end.write(&bytes[buffer], file.is_blocking()),
            Kind::Wasi(_) | Kind::Stream(_) | Kind::Directory(_) => Err(errno::BADF),
        };
        match result {
            Ok(count) => written = written.saturating_add(count),
            Err(refused) if written == 0 => return Ok(refused),
            Err(_) => break,
        }
        if result != Ok(len) {
            break;
        }
    }
    bytes[out].copy_from_slice(&u32::try_from(written).unwrap_or(u32::MAX).to_le_bytes());
    Ok(errno::SUCCESS)
}

async fn write_stream(
    caller: &mut Caller<'_, Guest>,
    stream: Stream,
    iovs: i32,
    count: i32,
    out: i32,
) -> wasmtime::Result<i32> {
    let (bytes, guest) = memory(caller)?.data_and_store_mut(caller);
    let (Some(buffers), Some(out)) = (iovecs(bytes, iovs, count), range(bytes, out, 4)) else {
        return Ok(errno::FAULT);
    };
    let (stream, number) = match stream {
        Stream::Input => return Ok(errno::BADF),
        Stream::Output => (&mut guest.stdout, 0),
        Stream::Error => (&mut guest.stderr, 1),
    };
    let mut written = 0usize;
    for buffer in buffers {
        let piece = match &mut guest.net {
            Some(net) => net.mask_output(number, &bytes[buffer]),
            None => Cow::Borrowed(&bytes[buffer]),
        };
        let sent = match stream.write(&piece) {
            Ok(fits) => guest.delivery.send(number, &piece[..fits]).await,
            Err(failed) => Err(failed),
        };
        match sent {
            Ok(()) => written += piece.len(),
            Err(WriteError::Closed) => return Ok(errno::PIPE),
            Err(WriteError::Flood) => return Err(Flood.into()),
        }
    }
    bytes[out].copy_from_slice(&(written as u32).to_le_bytes());
    Ok(errno::SUCCESS)
}

async fn read_stream(caller: &mut Caller<'_, Guest>, iovs: i32, count: i32, out: i32) -> wasmtime::Result<i32> {
    let (bytes, guest) = memory(caller)?.data_and_store_mut(caller);
    let (Some(buffers), Some(out)) = (iovecs(bytes, iovs, count), range(bytes, out, 4)) else {
        return Ok(errno::FAULT);
    };
    let buffer = buffers.into_iter().find(|buffer| !buffer.is_empty()).unwrap_or(0..0);
    if let Some(witness) = &guest.witness {
        witness.read_input();
    }
    let Ok(read) = guest.stdin.read(&mut bytes[buffer]).await else {
        return Ok(errno::IO);
    };
    bytes[out].copy_from_slice(&(read as u32).to_le_bytes());
    Ok(errno::SUCCESS)
}
