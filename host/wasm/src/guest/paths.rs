//! The functions that take paths. They redirect each path to its mount, count changes, and refuse operations across
//! mounts.

use wasmtime::{Caller, Linker};
use wasmtime_wasi::p1::wasi_snapshot_preview1 as wasi;
use wiggle::GuestMemory;

mod devices;

use devices::{creation_errno, device_filestat, open_device, resolve_existing};

use crate::devices::{Directory, LookupError, Node, lookup};
use crate::guest::descriptors::{Kind, OpenFile, touch};
use crate::guest::linker::WASI;
use crate::guest::memory::{range, read_u32, split};
use crate::guest::{Guest, errno, missed};
use crate::mounts::{FinalSymlink, PathLocation, ROOT_FD, Target};

/// `path_open` flag: create the file if it does not exist.
const O_CREAT: i32 = 1;
/// `path_open` flags: fail unless the file is a directory, and fail if the file exists.
const O_DIRECTORY: i32 = 2;
const O_EXCL: i32 = 4;
/// `path_open` flag: truncate the file.
const O_TRUNC: i32 = 8;
/// Rights to change a file's content or size: `fd_write`, `fd_allocate` and `fd_filestat_set_size`.
const CHANGING_RIGHTS: i64 = (1 << 6) | (1 << 8) | (1 << 22);
/// Rights to read and to write.
const FD_READ: i64 = 1 << 1;
const FD_WRITE: i64 = 1 << 6;
/// Lookup flag: follow a symbolic link in the last component.
const FOLLOW: i32 = 1;
/// Offset of the file type in a `filestat`, and its length.
const FILESTAT_TYPE: usize = 16;
const FILESTAT_LEN: i32 = 64;
/// File types that can be opened without the risk of blocking a thread forever.
const DIRECTORY: u8 = 3;
const REGULAR_FILE: u8 = 4;
const SYMBOLIC_LINK: u8 = 7;

/// A path argument, redirected for the function of `wasmtime-wasi`.
struct PathArg {
    location: PathLocation,
    ptr: i32,
    len: i32,
    /// True for a path relative to the root, as interpreters pass all paths.
    is_absolute: bool,
    /// The guest's byte that `.` replaces until the call is over, for an empty path in a mount.
    overwritten: Option<u8>,
}

/// The target of a path argument.
enum PathTarget {
    /// A file on a disk, which may not exist.
    File(PathArg),
    /// A virtual device or directory, or the error for a path in `/dev` that does not exist.
    Device(Result<Node, LookupError>),
}

impl PathArg {
    /// Resolves a path relative to one of the guest's descriptors.
    ///
    /// # Errors
    /// [`errno::BADF`] if the descriptor is not open, and [`errno::NOTDIR`] if it is not a directory.
    fn redirect(memory: &mut GuestMemory<'_>, guest: &Guest, fd: i32, ptr: i32, len: i32) -> Result<PathTarget, i32> {
        let GuestMemory::Unshared(bytes) = memory else { return Err(errno::FAULT) };
        let text = range(bytes, ptr, len).and_then(|range| std::str::from_utf8(&bytes[range]).ok());
        let fd = match &guest.descriptors.get(fd)?.kind {
            Kind::Wasi(wasi_fd) => *wasi_fd,
            Kind::Directory(directory) => {
                return Ok(PathTarget::Device(
                    text.ok_or(LookupError::NotFound).and_then(|path| lookup(*directory, path)),
                ));
            }
            _ => return Err(errno::NOTDIR),
        };
        let is_absolute = fd == ROOT_FD;
        let location = PathLocation { fd, skip: 0, mount: None };
        let unredirected = Self { location, ptr, len, is_absolute, overwritten: None };
        // `wasmtime-wasi` refuses a path that is out of bounds or not UTF-8 with its own error.
        let Some(path) = text else { return Ok(PathTarget::File(unredirected)) };
        if let Some(witness) = &guest.witness {
            witness.look_up(if fd == ROOT_FD { path } else { "" });
        }
        let location = match guest.mounts.target(fd, path) {
            Target::Files(location) => location,
            Target::Devices { skip } => return Ok(PathTarget::Device(lookup(Directory::Devices, &path[skip..]))),
        };
        let rest = path.len() - location.skip;
        if location.mount.is_none() {
            return Ok(PathTarget::File(Self { location, ..unredirected }));
        }
        // The path "//x" in a mount has the rest "/x". The slashes have no meaning and are skipped, because they would
        // make the rest absolute.
        let slashes = path[location.skip..].bytes().take_while(|b| *b == b'/').count();
        if rest > slashes {
            let skip = (location.skip + slashes) as i32;
            return Ok(PathTarget::File(Self {
                location,
                ptr: ptr.wrapping_add(skip),
                len: len - skip,
                is_absolute,
                overwritten: None,
            }));
        }
        // The mount itself is "." for `wasmtime-wasi`, which reads paths only from the guest's memory.
        let at = ptr as u32 as usize;
        let overwritten = std::mem::replace(&mut bytes[at], b'.');
        Ok(PathTarget::File(Self { location, ptr, len: 1, is_absolute, overwritten: Some(overwritten) }))
    }

    /// Restores the guest's memory after a call with this result, and records a failure. The arguments are those of the guest.
    fn finish(&self, memory: &mut GuestMemory<'_>, guest: &mut Guest, (ptr, len): (i32, i32), result: i32) {
        self.restore(memory);
        if self.is_absolute
            && result != errno::SUCCESS
            && let Some(text) = text_at(memory, ptr, len)
        {
            missed::record(&mut guest.missed, text, result);
        }
    }

    fn restore(&self, memory: &mut GuestMemory<'_>) {
        if let (Some(byte), GuestMemory::Unshared(bytes)) = (self.overwritten, memory) {
            bytes[self.ptr as u32 as usize] = byte;
        }
    }
}

/// Returns the path in the guest's memory, if it is UTF-8.
fn text_at<'m>(memory: &'m GuestMemory<'_>, ptr: i32, len: i32) -> Option<&'m str> {
    let GuestMemory::Unshared(bytes) = memory else { return None };
    std::str::from_utf8(&bytes[range(bytes, ptr, len)?]).ok()
}

/// The number of new files or directories that a change creates, which count towards the quota.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NewEntries {
    One,
    Zero,
}

/// Returns true if no guard protects the file at a path from changes.
fn allows_change(memory: &GuestMemory<'_>, guest: &Guest, path: &PathArg, final_symlink: FinalSymlink) -> bool {
    if matches!(memory, GuestMemory::Shared(_)) {
        return false;
    }
    // `wasmtime-wasi` refuses a path that is not UTF-8 or out of bounds.
    text_at(memory, path.ptr, path.len)
        .is_none_or(|text| guest.mounts.allows_change(path.location, text, final_symlink))
}

/// Checks a change at a path and counts it. Returns the error number if the change is refused.
fn check_change(
    memory: &GuestMemory<'_>,
    guest: &mut Guest,
    path: &PathArg,
    final_symlink: FinalSymlink,
    new_entries: NewEntries,
) -> Option<i32> {
    if !allows_change(memory, guest, path, final_symlink) {
        return Some(errno::ROFS);
    }
    guest.quota.record_change();
    (new_entries == NewEntries::One && guest.quota.count_creation().is_err()).then_some(errno::DQUOT)
}

/// The effect of a function on its path.
#[derive(Clone, Copy)]
enum PathUse {
    Inspect,
    Change(FinalSymlink, NewEntries),
}

/// A change of the path's own last component.
const CHANGE_ENTRY: PathUse = PathUse::Change(FinalSymlink::NoFollow, NewEntries::Zero);
/// A change that creates the path's own last component.
const ADD_ENTRY: PathUse = PathUse::Change(FinalSymlink::NoFollow, NewEntries::One);

/// Checks that a function may be called. Returns the error number if the call is refused.
fn check_use(memory: &GuestMemory<'_>, guest: &mut Guest, path: &PathArg, what: PathUse) -> Option<i32> {
    match what {
        PathUse::Inspect => None,
        PathUse::Change(final_symlink, new_entries) => check_change(memory, guest, path, final_symlink, new_entries),
    }
}

/// Reverts the count of a file or directory that was not created.
fn revert_failed_creation(guest: &mut Guest, what: PathUse, result: &wasmtime::Result<i32>) {
    if matches!(what, PathUse::Change(_, NewEntries::One)) && !matches!(result, Ok(errno::SUCCESS)) {
        guest.quota.uncount_creation();
    }
}

/// Shadows a generated function with one path, which the arguments in `at` specify.
macro_rules! one_path {
    ($linker:ident, $function:ident($($argument:ident: $type:ty),*), at($fd:ident, $ptr:ident, $len:ident), $use:expr, |$memory:ident, $guest:ident, $node:ident| $device:expr) => {
        $linker.func_wrap_async(
            WASI,
            stringify!($function),
            |mut caller: Caller<'_, Guest>, ($($argument,)*): ($($type,)*)| {
                Box::new(async move {
                    let (mut memory, guest) = split(&mut caller)?;
                    let path = match PathArg::redirect(&mut memory, guest, $fd, $ptr, $len) {
                        Ok(PathTarget::File(path)) => path,
                        Ok(PathTarget::Device($node)) => {
                            let ($memory, $guest) = (&mut memory, guest);
                            return $device;
                        }
                        Err(refused) => return Ok(refused),
                    };
                    let result = match check_use(&memory, guest, &path, $use) {
                        None => {
                            let ($fd, $ptr, $len) = (path.location.fd, path.ptr, path.len);
                            let result = wasi::$function(&mut guest.wasi, &mut memory, $($argument),*).await;
                            revert_failed_creation(guest, $use, &result);
                            result
                        }
                        Some(refused) => Ok(refused),
                    };
                    path.finish(&mut memory, guest, ($ptr, $len), *result.as_ref().unwrap_or(&errno::SUCCESS));
                    result
                })
            },
        )?
    };
}

/// Shadows a generated function with two paths, which have to be in the same mount, as in the same file system.
///
/// A hard link or a rename from a read-only mount into a writable one would make the file writable.
macro_rules! two_paths {
    ($linker:ident, $function:ident($($argument:ident: $type:ty),*),
     from($fd:ident, $ptr:ident, $len:ident), to($to_fd:ident, $to_ptr:ident, $to_len:ident), $new_entries:expr) => {
        $linker.func_wrap_async(
            WASI,
            stringify!($function),
            |mut caller: Caller<'_, Guest>, ($($argument,)*): ($($type,)*)| {
                Box::new(async move {
                    let (mut memory, guest) = split(&mut caller)?;
                    let from = match PathArg::redirect(&mut memory, guest, $fd, $ptr, $len) {
                        Ok(from) => from,
                        Err(refused) => return Ok(refused),
                    };
                    let to = PathArg::redirect(&mut memory, guest, $to_fd, $to_ptr, $to_len);
                    let (from, to) = match (from, to) {
                        (PathTarget::File(from), Ok(PathTarget::File(to))) => (from, to),
                        (from, to) => {
                            if let PathTarget::File(from) = &from {
                                from.restore(&mut memory);
                            }
                            if let Ok(PathTarget::File(to)) = &to {
                                to.restore(&mut memory);
                            }
                            return Ok(to.map_or_else(|refused| refused, |to| cross_device_errno(&from, &to)));
                        }
                    };
                    // A second name for a protected file would permit changing the file, so both ends are checked.
                    let refused = (from.location.mount != to.location.mount)
                        .then_some(errno::XDEV)
                        .or_else(|| check_change(&memory, guest, &from, FinalSymlink::NoFollow, NewEntries::Zero))
                        .or_else(|| check_change(&memory, guest, &to, FinalSymlink::NoFollow, $new_entries));
                    let result = match refused {
                        None => {
                            let ($fd, $ptr, $len) = (from.location.fd, from.ptr, from.len);
                            let ($to_fd, $to_ptr, $to_len) = (to.location.fd, to.ptr, to.len);
                            let result = wasi::$function(&mut guest.wasi, &mut memory, $($argument),*).await;
                            revert_failed_creation(guest, PathUse::Change(FinalSymlink::NoFollow, $new_entries), &result);
                            result
                        }
                        Some(refused) => Ok(refused),
                    };
                    to.restore(&mut memory);
                    from.restore(&mut memory);
                    result
                })
            },
        )?
    };
}

pub(crate) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    one_path!(
        linker,
        path_filestat_get(fd: i32, flags: i32, ptr: i32, len: i32, out: i32),
        at(fd, ptr, len),
        PathUse::Inspect,
        |memory, guest, node| device_filestat(memory, guest, node, out).await
    );
    one_path!(
        linker,
        path_readlink(fd: i32, ptr: i32, len: i32, buf: i32, buf_len: i32, out: i32),
        at(fd, ptr, len),
        PathUse::Inspect,
        |_memory, guest, node| Ok(resolve_existing(guest, node).map_or_else(|refused| refused, |_| errno::INVAL))
    );
    one_path!(
        linker,
        path_create_directory(fd: i32, ptr: i32, len: i32),
        at(fd, ptr, len),
        ADD_ENTRY,
        |_memory, guest, node| Ok(creation_errno(guest, node))
    );
    one_path!(
        linker,
        path_symlink(target: i32, target_len: i32, fd: i32, ptr: i32, len: i32),
        at(fd, ptr, len),
        ADD_ENTRY,
        |_memory, guest, node| Ok(creation_errno(guest, node))
    );
    one_path!(
        linker,
        path_remove_directory(fd: i32, ptr: i32, len: i32),
        at(fd, ptr, len),
        CHANGE_ENTRY,
        |_memory, guest, node| Ok(match resolve_existing(guest, node) {
            Ok(Node::Directory(_)) => errno::ACCES,
            Ok(_) => errno::NOTDIR,
            Err(refused) => refused,
        })
    );
    one_path!(
        linker,
        path_unlink_file(fd: i32, ptr: i32, len: i32),
        at(fd, ptr, len),
        CHANGE_ENTRY,
        |_memory, guest, node| Ok(match resolve_existing(guest, node) {
            Ok(Node::Directory(_)) => errno::ISDIR,
            Ok(_) => errno::ACCES,
            Err(refused) => refused,
        })
    );
    one_path!(
        linker,
        path_filestat_set_times(fd: i32, flags: i32, ptr: i32, len: i32, atim: i64, mtim: i64, which: i32),
        at(fd, ptr, len),
        PathUse::Change(if flags & FOLLOW == 0 { FinalSymlink::NoFollow } else { FinalSymlink::Follow }, NewEntries::Zero),
        |_memory, guest, node| Ok(resolve_existing(guest, node).map_or_else(|refused| refused, |_| touch(which)))
    );
    two_paths!(
        linker,
        path_rename(fd: i32, ptr: i32, len: i32, to_fd: i32, to_ptr: i32, to_len: i32),
        from(fd, ptr, len),
        to(to_fd, to_ptr, to_len),
        NewEntries::Zero
    );
    two_paths!(
        linker,
        path_link(fd: i32, flags: i32, ptr: i32, len: i32, to_fd: i32, to_ptr: i32, to_len: i32),
        from(fd, ptr, len),
        to(to_fd, to_ptr, to_len),
        NewEntries::One
    );
    linker.func_wrap_async(
        WASI,
        "path_open",
        |mut caller: Caller<'_, Guest>,
         (fd, dirflags, ptr, len, oflags, rights, inherited, fdflags, out): (
            i32,
            i32,
            i32,
            i32,
            i32,
            i64,
            i64,
            i32,
            i32,
        )| {
            Box::new(async move {
                let (mut memory, guest) = split(&mut caller)?;
                if !matches!(&memory, GuestMemory::Unshared(bytes) if range(bytes, out, 4).is_some()) {
                    return Ok(errno::FAULT);
                }
                if !guest.descriptors.has_space() {
                    return Ok(errno::MFILE);
                }
                let path = match PathArg::redirect(&mut memory, guest, fd, ptr, len) {
                    Ok(PathTarget::File(path)) => path,
                    Ok(PathTarget::Device(node)) => {
                        return Ok(open_device(&mut memory, guest, node, oflags, rights, out));
                    }
                    Err(refused) => return Ok(refused),
                };
                let prepared = prepare_open(&mut memory, guest, &path, dirflags, oflags, rights).await?;
                let result = match prepared {
                    Ok(_) => {
                        let (fd, ptr, len) = (path.location.fd, path.ptr, path.len);
                        let ctx = &mut guest.wasi;
                        wasi::path_open(
                            ctx,
                            &mut memory,
                            fd,
                            dirflags,
                            ptr,
                            len,
                            oflags,
                            rights,
                            inherited,
                            fdflags,
                            out,
                        )
                        .await?
                    }
                    Err(refused) => refused,
                };
                let result = match prepared {
                    Ok(PreparedOpen { is_guarded, .. }) if result == errno::SUCCESS => {
                        register_opened(&mut memory, guest, (ptr, len), is_guarded.then_some(path.location), out)
                    }
                    _ => result,
                };
                path.finish(&mut memory, guest, (ptr, len), result);
                if result == errno::SUCCESS {
                    record_listing(&memory, guest, &path, (ptr, len), oflags);
                    return Ok(result);
                }
                if let Ok(PreparedOpen { new_entries, .. }) = prepared {
                    guest.quota.close();
                    revert_failed_creation(guest, PathUse::Change(FinalSymlink::NoFollow, new_entries), &Ok(result));
                }
                Ok(result)
            })
        },
    )?;
    Ok(())
}

/// Records that the guest has opened a directory.
fn record_listing(memory: &GuestMemory<'_>, guest: &mut Guest, path: &PathArg, (ptr, len): (i32, i32), oflags: i32) {
    if path.is_absolute
        && oflags & O_DIRECTORY != 0
        && let Some(text) = text_at(memory, ptr, len)
    {
        missed::record_listing(&mut guest.missed, text);
    }
}

/// An open that is permitted.
#[derive(Clone, Copy)]
struct PreparedOpen {
    new_entries: NewEntries,
    /// True if changes through the descriptor are refused below a guarded mount: the file may be a directory, or a
    /// guard protects it.
    is_guarded: bool,
}

/// Counts an open and checks its target. Returns the error number if the open is refused.
///
/// Opening a FIFO or some devices blocks in the kernel, where the call cannot be interrupted, so only directories and
/// regular files are opened. The check precedes the open and is not atomic with it: a guest cannot make special files,
/// and another process that replaces the file in between only blocks one thread until the job's process ends.
async fn prepare_open(
    memory: &mut GuestMemory<'_>,
    guest: &mut Guest,
    path: &PathArg,
    dirflags: i32,
    oflags: i32,
    rights: i64,
) -> wasmtime::Result<Result<PreparedOpen, i32>> {
    if guest.quota.open().is_err() {
        return Ok(Err(errno::MFILE));
    }
    let changes = oflags & (O_CREAT | O_TRUNC) != 0 || rights & CHANGING_RIGHTS != 0;
    let final_symlink = if dirflags & FOLLOW == 0 { FinalSymlink::NoFollow } else { FinalSymlink::Follow };
    let found = file_type(memory, guest, path, dirflags & FOLLOW).await?;
    let new_entries = if found.is_none() && oflags & O_CREAT != 0 { NewEntries::One } else { NewEntries::Zero };
    let refused = match found {
        Some(DIRECTORY) if oflags & (O_CREAT | O_TRUNC) == 0 => None,
        None | Some(DIRECTORY | REGULAR_FILE | SYMBOLIC_LINK) if changes => {
            check_change(memory, guest, path, final_symlink, new_entries)
        }
        None | Some(DIRECTORY | REGULAR_FILE | SYMBOLIC_LINK) => None,
        Some(_) => Some(errno::ACCES),
    };
    if let Some(refused) = refused {
        guest.quota.close();
        return Ok(Err(refused));
    }
    let may_be_directory = found == Some(DIRECTORY) || found.is_none() && oflags & O_CREAT == 0;
    // An open for changes has already been checked.
    let is_guarded = may_be_directory || !changes && !allows_change(memory, guest, path, final_symlink);
    Ok(Ok(PreparedOpen { new_entries, is_guarded }))
}

/// Gives the guest a descriptor of its own for the file that it opened with this argument. `guarded` is the location of a file
/// through whose descriptor changes are refused.
fn register_opened(
    memory: &mut GuestMemory<'_>,
    guest: &mut Guest,
    (ptr, len): (i32, i32),
    guarded: Option<PathLocation>,
    out: i32,
) -> i32 {
    let GuestMemory::Unshared(bytes) = memory else { return errno::FAULT };
    let Some(wasi_fd) = read_u32(bytes, out as u32 as usize) else { return errno::FAULT };
    let wasi_fd = wasi_fd as i32;
    if let Some(location) = guarded {
        guest.mounts.record_open(wasi_fd, location);
    }
    let name = range(bytes, ptr, len).map_or(&[][..], |name| &bytes[name]);
    match guest.descriptors.insert(OpenFile::at_path(wasi_fd, name)) {
        Ok(fd) => write_i32(bytes, out, fd),
        Err(refused) => refused,
    }
}

/// Returns the type of the file at a path, or `None` if the file does not exist or its type cannot be determined.
async fn file_type(
    memory: &mut GuestMemory<'_>,
    guest: &mut Guest,
    path: &PathArg,
    follow: i32,
) -> wasmtime::Result<Option<u8>> {
    let GuestMemory::Unshared(bytes) = memory else { return Ok(None) };
    // The call writes its result to the memory that holds the path, so it runs on a copy of the path, and the guest's
    // bytes stay unchanged.
    let Some(name) = range(bytes, path.ptr, path.len) else { return Ok(None) };
    let mut scratch = bytes[name].to_vec();
    let len = scratch.len();
    let stat_at = len.next_multiple_of(8);
    scratch.resize(stat_at + FILESTAT_LEN as usize, 0);
    let mut scratch_memory = GuestMemory::Unshared(&mut scratch);
    let (fd, len, stat) = (path.location.fd, len as i32, stat_at as i32);
    let result = wasi::path_filestat_get(&mut guest.wasi, &mut scratch_memory, fd, follow, 0, len, stat).await?;
    Ok((result == errno::SUCCESS).then(|| scratch[stat_at + FILESTAT_TYPE]))
}

/// Returns the error number for renaming or linking a device, or for renaming or linking a file into `/dev`.
fn cross_device_errno(from: &PathTarget, to: &PathTarget) -> i32 {
    match (from, to) {
        (PathTarget::Device(_), PathTarget::Device(_)) => errno::ACCES,
        _ => errno::XDEV,
    }
}

fn write_i32(bytes: &mut [u8], out: i32, number: i32) -> i32 {
    let Some(location) = range(bytes, out, 4) else { return errno::FAULT };
    bytes[location].copy_from_slice(&number.to_le_bytes());
    errno::SUCCESS
}
