//! The functions a guest imports: wasmtime's system interface, some of it shadowed.
//!
//! A shadow decides (which mount, which quota, which stream) and then delegates to the generated function it stands
//! in front of; none of them touches the host's files itself.

use codebox_streams::WriteFailed;
use wasmtime::{Caller, Linker};
use wasmtime_wasi::I32Exit;
use wasmtime_wasi::p1::{self, wasi_snapshot_preview1 as wasi};

use crate::engine::Engine;
use crate::error::WasmError;
use crate::guest::errno;
use crate::guest::memory::{Shortened, memory, range, split, too_many_vectors, vectors};
use crate::guest::{Guest, channel, listing, paths};

/// The module that preview 1's functions are imported from.
pub(crate) const WASI: &str = "wasi_snapshot_preview1";

/// Subscriptions one poll may name; more than any program with at most a few hundred descriptors can use.
const MAX_SUBSCRIPTIONS: i32 = 1024;

/// The imports that every code image is linked to.
pub(crate) fn linker(engine: &Engine) -> Result<Linker<Guest>, WasmError> {
    let mut linker = Linker::new(engine.inner());
    link(&mut linker).map_err(WasmError::engine("define the guest's imports"))?;
    Ok(linker)
}

fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    p1::add_to_linker_async(linker, |guest: &mut Guest| &mut guest.wasi)?;
    linker.allow_shadowing(true);
    channel::link(linker)?;
    paths::link(linker)?;
    ending(linker)?;
    descriptors(linker)?;
    streams(linker)
}

/// Ends a guest with any status: the system interface knows only those below 126.
fn ending(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap(WASI, "proc_exit", |status: i32| -> wasmtime::Result<()> {
        Err(wasmtime::Error::from(I32Exit(status & 0xff)))
    })?;
    Ok(())
}

/// Keeps the guest's hands off descriptors that are the host's, and counts the others.
fn descriptors(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap_async(WASI, "fd_prestat_get", |mut caller: Caller<'_, Guest>, (fd, out): (i32, i32)| {
        Box::new(async move {
            let (mut memory, guest) = split(&mut caller)?;
            if guest.mounts.hides(fd) {
                return Ok(errno::BADF);
            }
            wasi::fd_prestat_get(&mut guest.wasi, &mut memory, fd, out)
        })
    })?;
    linker.func_wrap_async(WASI, "fd_close", |mut caller: Caller<'_, Guest>, (fd,): (i32,)| {
        Box::new(async move {
            let (mut memory, guest) = split(&mut caller)?;
            if guest.mounts.owns(fd) {
                return Ok(errno::BADF);
            }
            let result = wasi::fd_close(&mut guest.wasi, &mut memory, fd).await?;
            if result == errno::SUCCESS {
                guest.forget(fd);
            }
            Ok(result)
        })
    })?;
    linker.func_wrap_async(WASI, "fd_renumber", |mut caller: Caller<'_, Guest>, (from, to): (i32, i32)| {
        Box::new(async move {
            let (mut memory, guest) = split(&mut caller)?;
            // The streams are the host's own, and known by their numbers: they cannot be moved.
            if guest.mounts.owns(from) || guest.mounts.owns(to) || guest.is_stream(from) {
                return Ok(errno::BADF);
            }
            let result = wasi::fd_renumber(&mut guest.wasi, &mut memory, from, to).await?;
            if result == errno::SUCCESS && from != to {
                guest.listings.forget(from);
                guest.forget(to);
                guest.mounts.renumbered(from, to);
            }
            Ok(result)
        })
    })?;
    linker.func_wrap_async(
        WASI,
        "fd_readdir",
        |mut caller: Caller<'_, Guest>, (fd, buf, buf_len, cookie, out): (i32, i32, i32, i64, i32)| {
            Box::new(async move {
                let (mut memory, guest) = split(&mut caller)?;
                listing::readdir(&mut memory, guest, fd, (buf, buf_len), cookie, out).await
            })
        },
    )?;
    linker.func_wrap_async(
        WASI,
        "fd_allocate",
        |mut caller: Caller<'_, Guest>, (fd, offset, len): (i32, i64, i64)| {
            Box::new(async move {
                let (mut memory, guest) = split(&mut caller)?;
                if guest.quota.write(len as u64).is_err() {
                    return Ok(errno::DQUOT);
                }
                wasi::fd_allocate(&mut guest.wasi, &mut memory, fd, offset, len)
            })
        },
    )?;
    linker.func_wrap_async(WASI, "fd_filestat_set_size", |mut caller: Caller<'_, Guest>, (fd, size): (i32, i64)| {
        Box::new(async move {
            let (mut memory, guest) = split(&mut caller)?;
            // The whole new size counts: what it was before would cost another call to learn, and a file that is
            // cut counts nothing where that matters, at zero.
            if guest.quota.write(size as u64).is_err() {
                return Ok(errno::DQUOT);
            }
            wasi::fd_filestat_set_size(&mut guest.wasi, &mut memory, fd, size).await
        })
    })?;
    linker.func_wrap_async(
        WASI,
        "fd_filestat_set_times",
        |mut caller: Caller<'_, Guest>, (fd, atim, mtim, which): (i32, i64, i64, i32)| {
            Box::new(async move {
                let (mut memory, guest) = split(&mut caller)?;
                if guest.mounts.guards(fd) {
                    return Ok(errno::ROFS);
                }
                guest.quota.change();
                wasi::fd_filestat_set_times(&mut guest.wasi, &mut memory, fd, atim, mtim, which).await
            })
        },
    )?;
    linker.func_wrap_async(
        WASI,
        "poll_oneoff",
        |mut caller: Caller<'_, Guest>, (subs, events, count, out): (i32, i32, i32, i32)| {
            Box::new(async move {
                let (mut memory, guest) = split(&mut caller)?;
                if !(0..=MAX_SUBSCRIPTIONS).contains(&count) {
                    return Ok(errno::INVAL);
                }
                wasi::poll_oneoff(&mut guest.wasi, &mut memory, subs, events, count, out).await
            })
        },
    )?;
    Ok(())
}

/// Reading and writing: the standard streams are the host's own, everything else goes by quota.
fn streams(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        WASI,
        "fd_write",
        |mut caller: Caller<'_, Guest>, (fd, iovs, count, out): (i32, i32, i32, i32)| {
            Box::new(async move {
                if too_many_vectors(count) {
                    return Ok(errno::INVAL);
                }
                if (fd == 1 || fd == 2) && caller.data().is_stream(fd) {
                    return write_stream(&mut caller, fd, iovs, count, out).await;
                }
                let (mut memory, guest) = split(&mut caller)?;
                let shortened = Shortened::new(&mut memory, iovs, count);
                let result = if guest.quota.write(first_len(&memory, iovs, count)).is_err() {
                    Ok(errno::DQUOT)
                } else {
                    wasi::fd_write(&mut guest.wasi, &mut memory, fd, iovs, count, out).await
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
                if too_many_vectors(count) {
                    return Ok(errno::INVAL);
                }
                let (mut memory, guest) = split(&mut caller)?;
                let shortened = Shortened::new(&mut memory, iovs, count);
                let result = if guest.quota.write(first_len(&memory, iovs, count)).is_err() {
                    Ok(errno::DQUOT)
                } else {
                    wasi::fd_pwrite(&mut guest.wasi, &mut memory, fd, iovs, count, offset, out).await
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
                if too_many_vectors(count) {
                    return Ok(errno::INVAL);
                }
                if fd == 0 && caller.data().is_stream(fd) {
                    return read_stream(&mut caller, iovs, count, out).await;
                }
                let (mut memory, guest) = split(&mut caller)?;
                let shortened = Shortened::new(&mut memory, iovs, count);
                let result = wasi::fd_read(&mut guest.wasi, &mut memory, fd, iovs, count, out).await;
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
                if too_many_vectors(count) {
                    return Ok(errno::INVAL);
                }
                let (mut memory, guest) = split(&mut caller)?;
                let shortened = Shortened::new(&mut memory, iovs, count);
                let result = wasi::fd_pread(&mut guest.wasi, &mut memory, fd, iovs, count, offset, out).await;
                shortened.restore(&mut memory);
                result
            })
        },
    )?;
    Ok(())
}

/// What the system interface will write: it takes the first buffer that is not empty.
fn first_len(memory: &wiggle::GuestMemory<'_>, iovs: i32, count: i32) -> u64 {
    let wiggle::GuestMemory::Unshared(bytes) = memory else { return 0 };
    let buffers = vectors(bytes, iovs, count).unwrap_or_default();
    buffers.iter().map(ExactSizeIterator::len).find(|len| *len > 0).unwrap_or(0) as u64
}

async fn write_stream(
    caller: &mut Caller<'_, Guest>,
    fd: i32,
    iovs: i32,
    count: i32,
    out: i32,
) -> wasmtime::Result<i32> {
    let (bytes, guest) = memory(caller)?.data_and_store_mut(caller);
    let (Some(buffers), Some(out)) = (vectors(bytes, iovs, count), range(bytes, out, 4)) else {
        return Ok(errno::FAULT);
    };
    let (stream, number) = if fd == 1 { (&mut guest.stdout, 0) } else { (&mut guest.stderr, 1) };
    let mut written = 0usize;
    for buffer in buffers {
        let piece = &bytes[buffer];
        let sent = match stream.write(piece) {
            Ok(fits) => guest.delivery.send(number, &piece[..fits]).await,
            Err(failed) => Err(failed),
        };
        match sent {
            Ok(()) => written += piece.len(),
            Err(WriteFailed::Closed) => return Ok(errno::PIPE),
            Err(WriteFailed::Flood) => return Err(Flood.into()),
        }
    }
    bytes[out].copy_from_slice(&(written as u32).to_le_bytes());
    Ok(errno::SUCCESS)
}

async fn read_stream(caller: &mut Caller<'_, Guest>, iovs: i32, count: i32, out: i32) -> wasmtime::Result<i32> {
    let (bytes, guest) = memory(caller)?.data_and_store_mut(caller);
    let (Some(buffers), Some(out)) = (vectors(bytes, iovs, count), range(bytes, out, 4)) else {
        return Ok(errno::FAULT);
    };
    let buffer = buffers.into_iter().find(|buffer| !buffer.is_empty()).unwrap_or(0..0);
    let Ok(read) = guest.stdin.read(&mut bytes[buffer]).await else {
        return Ok(errno::IO);
    };
    bytes[out].copy_from_slice(&(read as u32).to_le_bytes());
    Ok(errno::SUCCESS)
}

/// Ends a guest that goes on writing after its output limit.
#[derive(Debug, thiserror::Error)]
#[error("the guest kept on writing after its output limit")]
pub(crate) struct Flood;
