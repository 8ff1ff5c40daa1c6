//! The functions on descriptors, except for reads, writes and polls.

use wasmtime::{Caller, Linker};
use wasmtime_wasi::p1::wasi_snapshot_preview1 as wasi;
use wiggle::GuestMemory;

use crate::guest::descriptors::table::{DescriptorTable, Kind, OpenFile};
use crate::guest::descriptors::{release, write_stat};
use crate::guest::linker::WASI;
use crate::guest::memory::{range, split};
use crate::guest::{Guest, errno, listing};
use crate::mounts::ROOT_FD;

/// Flags that set times to the present: `ATIM_NOW` and `MTIM_NOW`.
const SET_NOW: i32 = (1 << 1) | (1 << 3);

/// Defines a function on one descriptor. `$here` is the result for an open file that codebox serves itself, and
/// `$inner` calls the function of `wasmtime-wasi` with its own descriptor.
macro_rules! one_descriptor {
    ($linker:ident, $function:ident(fd $(, $argument:ident: $type:ty)*),
     |$memory:ident, $guest:ident, $file:ident| $here:expr, |$fd:ident| $inner:expr) => {
        $linker.func_wrap_async(
            WASI,
            stringify!($function),
            |mut caller: Caller<'_, Guest>, (fd, $($argument,)*): (i32, $($type,)*)| {
                Box::new(async move {
                    let (mut $memory, $guest) = split(&mut caller)?;
                    let $file = match $guest.descriptors.get(fd) {
                        Ok(file) => file.clone(),
                        Err(refused) => return Ok(refused),
                    };
                    let answer: wasmtime::Result<i32> = match $file.kind {
                        Kind::Wasi($fd) => $inner,
                        _ => Ok($here),
                    };
                    answer
                })
            },
        )?
    };
}

pub(crate) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    link_numbering(linker)?;
    link_properties(linker)?;
    link_changes(linker)?;
    link_sockets(linker)
}

/// Defines the functions that close and renumber descriptors, and those that describe the preopened directory.
fn link_numbering(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap_async(WASI, "fd_prestat_get", |mut caller: Caller<'_, Guest>, (fd, out): (i32, i32)| {
        Box::new(async move {
            let (mut memory, guest) = split(&mut caller)?;
            match DescriptorTable::is_fixed(fd) {
                true => wasi::fd_prestat_get(&mut guest.wasi, &mut memory, ROOT_FD, out),
                false => Ok(errno::BADF),
            }
        })
    })?;
    linker.func_wrap_async(
        WASI,
        "fd_prestat_dir_name",
        |mut caller: Caller<'_, Guest>, (fd, path, len): (i32, i32, i32)| {
            Box::new(async move {
                let (mut memory, guest) = split(&mut caller)?;
                match DescriptorTable::is_fixed(fd) {
                    true => wasi::fd_prestat_dir_name(&mut guest.wasi, &mut memory, ROOT_FD, path, len),
                    false => Ok(errno::BADF),
                }
            })
        },
    )?;
    linker.func_wrap_async(WASI, "fd_close", |mut caller: Caller<'_, Guest>, (fd,): (i32,)| {
        Box::new(async move {
            let (_, guest) = split(&mut caller)?;
            match guest.descriptors.remove(fd) {
                Ok(removed) => release(guest, removed).await,
                Err(refused) => Ok(refused),
            }
        })
    })?;
    linker.func_wrap_async(WASI, "fd_renumber", |mut caller: Caller<'_, Guest>, (from, to): (i32, i32)| {
        Box::new(async move {
            let (_, guest) = split(&mut caller)?;
            renumber(guest, from, to).await
        })
    })?;
    Ok(())
}

async fn renumber(guest: &mut Guest, from: i32, to: i32) -> wasmtime::Result<i32> {
    let file = match guest.descriptors.get(from) {
        Ok(_) if DescriptorTable::is_fixed(from) => return Ok(errno::BADF),
        Ok(_) if from == to => return Ok(errno::SUCCESS),
        Ok(file) => file.clone(),
        Err(refused) => return Ok(refused),
    };
    if guest.quota.open().is_err() {
        return Ok(errno::MFILE);
    }
    match guest.descriptors.replace(to, file) {
        Ok(replaced) => {
            if let Some(replaced) = replaced {
                release(guest, replaced).await?;
            }
        }
        Err(refused) => {
            guest.quota.close();
            return Ok(refused);
        }
    }
    match guest.descriptors.remove(from) {
        Ok(removed) => release(guest, removed).await,
        Err(refused) => Ok(refused),
    }
}

/// Defines the functions that read the properties of a descriptor.
fn link_properties(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    one_descriptor!(
        linker,
        fd_fdstat_get(fd, out: i32),
        |memory, guest, file| put_fdstat(&mut memory, &file, out),
        |inner| wasi::fd_fdstat_get(&mut guest.wasi, &mut memory, inner, out).await
    );
    one_descriptor!(
        linker,
        fd_filestat_get(fd, out: i32),
        |memory, guest, file| put_filestat(&mut memory, &file, out),
        |inner| wasi::fd_filestat_get(&mut guest.wasi, &mut memory, inner, out).await
    );
    one_descriptor!(
        linker,
        fd_seek(fd, offset: i64, whence: i32, out: i32),
        |memory, guest, file| put_position(&mut memory, &file, out),
        |inner| wasi::fd_seek(&mut guest.wasi, &mut memory, inner, offset, whence, out).await
    );
    one_descriptor!(
        linker,
        fd_tell(fd, out: i32),
        |memory, guest, file| put_position(&mut memory, &file, out),
        |inner| wasi::fd_tell(&mut guest.wasi, &mut memory, inner, out)
    );
    one_descriptor!(
        linker,
        fd_advise(fd, offset: i64, len: i64, advice: i32),
        |memory, guest, file| if can_seek(&file) { errno::SUCCESS } else { errno::SPIPE },
        |inner| wasi::fd_advise(&mut guest.wasi, &mut memory, inner, offset, len, advice).await
    );
    linker.func_wrap_async(
        WASI,
        "fd_readdir",
        |mut caller: Caller<'_, Guest>, (fd, buf, buf_len, cookie, out): (i32, i32, i32, i64, i32)| {
            Box::new(async move {
                let (mut memory, guest) = split(&mut caller)?;
                let file = match guest.descriptors.get(fd) {
                    Ok(file) => file.clone(),
                    Err(refused) => return Ok(refused),
                };
                match &file.kind {
                    Kind::Wasi(inner) => listing::readdir(&mut memory, guest, *inner, buf, buf_len, cookie, out).await,
                    Kind::Directory(directory) => {
                        Ok(listing::devices(&mut memory, guest, *directory, buf, buf_len, cookie, out))
                    }
                    _ => Ok(errno::NOTDIR),
                }
            })
        },
    )?;
    Ok(())
}

/// Defines the functions that change a file or the behaviour of a descriptor.
fn link_changes(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    one_descriptor!(
        linker,
        fd_fdstat_set_flags(fd, flags: i32),
        |memory, guest, file| {
            file.set_flags(flags as u16);
            errno::SUCCESS
        },
        |inner| wasi::fd_fdstat_set_flags(&mut guest.wasi, &mut memory, inner, flags)
    );
    one_descriptor!(
        linker,
        fd_fdstat_set_rights(fd, base: i64, inheriting: i64),
        |memory, guest, file| errno::PERM,
        |inner| wasi::fd_fdstat_set_rights(&mut guest.wasi, &mut memory, inner, base, inheriting)
    );
    one_descriptor!(linker, fd_sync(fd), |memory, guest, file| errno::INVAL, |inner| wasi::fd_sync(
        &mut guest.wasi,
        &mut memory,
        inner
    )
    .await);
    one_descriptor!(linker, fd_datasync(fd), |memory, guest, file| errno::INVAL, |inner| wasi::fd_datasync(
        &mut guest.wasi,
        &mut memory,
        inner
    )
    .await);
    one_descriptor!(
        linker,
        fd_allocate(fd, offset: i64, len: i64),
        |memory, guest, file| if can_seek(&file) { errno::NODEV } else { errno::SPIPE },
        |inner| {
            if guest.quota.write(len as u64).is_err() {
                return Ok(errno::DQUOT);
            }
            wasi::fd_allocate(&mut guest.wasi, &mut memory, inner, offset, len)
        }
    );
    one_descriptor!(
        linker,
        fd_filestat_set_size(fd, size: i64),
        |memory, guest, file| errno::INVAL,
        |inner| {
            // The whole new size counts, because the old size would cost another call. A truncation to zero, the case
            // that matters, counts nothing.
            if guest.quota.write(size as u64).is_err() {
                return Ok(errno::DQUOT);
            }
            wasi::fd_filestat_set_size(&mut guest.wasi, &mut memory, inner, size).await
        }
    );
    one_descriptor!(
        linker,
        fd_filestat_set_times(fd, atim: i64, mtim: i64, which: i32),
        |memory, guest, file| touch(which),
        |inner| {
            if guest.mounts.guards(inner) {
                return Ok(errno::ROFS);
            }
            guest.quota.record_change();
            wasi::fd_filestat_set_times(&mut guest.wasi, &mut memory, inner, atim, mtim, which).await
        }
    );
    Ok(())
}

/// Defines the socket functions. No descriptor is a socket, so they always fail.
fn link_sockets(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    let answer = |caller: &Caller<'_, Guest>, fd| match caller.data().descriptors.get(fd) {
        Ok(_) => errno::NOTSOCK,
        Err(refused) => refused,
    };
    linker.func_wrap(WASI, "sock_accept", move |caller: Caller<'_, Guest>, fd: i32, _: i32, _: i32| {
        answer(&caller, fd)
    })?;
    linker.func_wrap(
        WASI,
        "sock_recv",
        move |caller: Caller<'_, Guest>, fd: i32, _: i32, _: i32, _: i32, _: i32, _: i32| answer(&caller, fd),
    )?;
    linker.func_wrap(
        WASI,
        "sock_send",
        move |caller: Caller<'_, Guest>, fd: i32, _: i32, _: i32, _: i32, _: i32| answer(&caller, fd),
    )?;
    linker.func_wrap(WASI, "sock_shutdown", move |caller: Caller<'_, Guest>, fd: i32, _: i32| answer(&caller, fd))?;
    Ok(())
}

/// Returns the result of setting a device's times: any process may set them to the present.
pub(crate) fn touch(which: i32) -> i32 {
    if which & !SET_NOW == 0 { errno::SUCCESS } else { errno::PERM }
}

fn can_seek(file: &OpenFile) -> bool {
    matches!(file.kind, Kind::Device(_) | Kind::Directory(_))
}

fn put_fdstat(memory: &mut GuestMemory<'_>, file: &OpenFile, out: i32) -> i32 {
    let (GuestMemory::Unshared(bytes), Some(stat)) = (memory, file.fdstat()) else { return errno::FAULT };
    let Some(place) = range(bytes, out, stat.len() as i32) else { return errno::FAULT };
    bytes[place].copy_from_slice(&stat);
    errno::SUCCESS
}

fn put_filestat(memory: &mut GuestMemory<'_>, file: &OpenFile, out: i32) -> i32 {
    file.stat().map_or(errno::BADF, |stat| write_stat(memory, out, stat))
}

/// Writes the position of a virtual file, which is always zero for devices, as on Linux.
fn put_position(memory: &mut GuestMemory<'_>, file: &OpenFile, out: i32) -> i32 {
    if !can_seek(file) {
        return errno::SPIPE;
    }
    let GuestMemory::Unshared(bytes) = memory else { return errno::FAULT };
    let Some(place) = range(bytes, out, 8) else { return errno::FAULT };
    bytes[place].fill(0);
    errno::SUCCESS
}
