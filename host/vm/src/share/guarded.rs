//! The files of a shared directory, without what a virtual machine must not do with them.

use std::ffi::CStr;
use std::io;
use std::time::Duration;

use codebox_core::Access;
use codebox_files::Dir;
use codebox_vm_guest::USER;
use fuse_backend_rs::abi::fuse_abi::{CreateIn, stat64, statvfs64};
use fuse_backend_rs::api::filesystem::{
    Context, DirEntry, Entry, FileSystem, FsOptions, OpenOptions, SetattrValid, ZeroCopyReader, ZeroCopyWriter,
};
use fuse_backend_rs::passthrough::PassthroughFs;
use rustix::fs::{FileType, RenameFlags};
use rustix::io::Errno;

/// User that stands for all others of this machine.
const OTHER_USER: u32 = 65534;

/// Bits of a mode with which a program runs with the rights of its owner or group.
const RIGHTS_OF_OWNER: u32 = 0o6000;

type Inode = u64;
type Handle = u64;

/// Files of a directory. The user of this process is that of Podman in the machine, and all accesses happen as this process.
///
/// A machine that is broken into can send any request. None creates a device or a program with the rights of its owner, none changes an owner, and without write access
/// none changes anything.
pub(super) struct Guarded {
    files: PassthroughFs,
    access: Access,
    owner: (u32, u32),
    /// The directory, by whose descriptor the library opens it.
    _root: Dir,
}

impl Guarded {
    pub(super) fn new(files: PassthroughFs, access: Access, root: Dir) -> Self {
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Self { files, access, owner, _root: root }
    }

    fn may_write(&self) -> io::Result<()> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => Err(Errno::ROFS.into()),
        }
    }

    /// Checks the flags with which a file is opened.
    fn may_open(&self, flags: u32) -> io::Result<()> {
        let writes = libc::O_WRONLY | libc::O_RDWR | libc::O_TRUNC | libc::O_CREAT | libc::O_APPEND;
        match flags & writes.unsigned_abs() {
            0 => Ok(()),
            _ => self.may_write(),
        }
    }

    /// Returns the attributes with the owner that the machine sees.
    fn shown(&self, mut attr: stat64) -> stat64 {
        attr.st_uid = if attr.st_uid == self.owner.0 { USER } else { OTHER_USER };
        attr.st_gid = if attr.st_gid == self.owner.1 { USER } else { OTHER_USER };
        attr
    }

    fn entry(&self, mut entry: Entry) -> Entry {
        entry.attr = self.shown(entry.attr);
        entry
    }
}

/// Checks that a name is that of an entry of a directory, and not a path.
fn check_name(name: &CStr) -> io::Result<()> {
    match name.to_bytes() {
        b"" | b"." | b".." => Err(Errno::INVAL.into()),
        name if name.contains(&b'/') => Err(Errno::INVAL.into()),
        _ => Ok(()),
    }
}

impl FileSystem for Guarded {
    type Inode = Inode;
    type Handle = Handle;

    fn id_remap(&self, ctx: &mut Context) -> io::Result<()> {
        // The library changes to the user of the request unless that is 0.
        (ctx.uid, ctx.gid) = (0, 0);
        Ok(())
    }

    fn init(&self, capable: FsOptions) -> io::Result<FsOptions> {
        self.files.init(capable)
    }

    fn destroy(&self) {
        self.files.destroy();
    }

    fn lookup(&self, ctx: &Context, parent: Inode, name: &CStr) -> io::Result<Entry> {
        check_name(name)?;
        self.files.lookup(ctx, parent, name).map(|entry| self.entry(entry))
    }

    fn forget(&self, ctx: &Context, inode: Inode, count: u64) {
        self.files.forget(ctx, inode, count);
    }

    fn batch_forget(&self, ctx: &Context, requests: Vec<(Inode, u64)>) {
        self.files.batch_forget(ctx, requests);
    }

    fn getattr(&self, ctx: &Context, inode: Inode, handle: Option<Handle>) -> io::Result<(stat64, Duration)> {
        self.files.getattr(ctx, inode, handle).map(|(attr, time)| (self.shown(attr), time))
    }

    fn setattr(
        &self,
        ctx: &Context,
        inode: Inode,
        mut attr: stat64,
        handle: Option<Handle>,
        mut valid: SetattrValid,
    ) -> io::Result<(stat64, Duration)> {
        self.may_write()?;
        // A change to the present owner is none.
        let changes_owner = (valid.contains(SetattrValid::UID) && attr.st_uid != USER)
            || (valid.contains(SetattrValid::GID) && attr.st_gid != USER);
        if changes_owner {
            return Err(Errno::PERM.into());
        }
        valid.remove(SetattrValid::UID | SetattrValid::GID);
        attr.st_mode &= !RIGHTS_OF_OWNER;
        self.files.setattr(ctx, inode, attr, handle, valid).map(|(attr, time)| (self.shown(attr), time))
    }

    fn readlink(&self, ctx: &Context, inode: Inode) -> io::Result<Vec<u8>> {
        self.files.readlink(ctx, inode)
    }

    fn symlink(&self, ctx: &Context, target: &CStr, parent: Inode, name: &CStr) -> io::Result<Entry> {
        self.may_write()?;
        check_name(name)?;
        self.files.symlink(ctx, target, parent, name).map(|entry| self.entry(entry))
    }

    fn mknod(
        &self,
        ctx: &Context,
        parent: Inode,
        name: &CStr,
        mode: u32,
        _device: u32,
        umask: u32,
    ) -> io::Result<Entry> {
        self.may_write()?;
        check_name(name)?;
        match FileType::from_raw_mode(mode) {
            FileType::RegularFile | FileType::Fifo | FileType::Socket => {}
            _ => return Err(Errno::PERM.into()),
        }
        self.files.mknod(ctx, parent, name, mode & !RIGHTS_OF_OWNER, 0, umask).map(|entry| self.entry(entry))
    }

    fn mkdir(&self, ctx: &Context, parent: Inode, name: &CStr, mode: u32, umask: u32) -> io::Result<Entry> {
        self.may_write()?;
        check_name(name)?;
        self.files.mkdir(ctx, parent, name, mode & !RIGHTS_OF_OWNER, umask).map(|entry| self.entry(entry))
    }

    fn unlink(&self, ctx: &Context, parent: Inode, name: &CStr) -> io::Result<()> {
        self.may_write()?;
        check_name(name)?;
        self.files.unlink(ctx, parent, name)
    }

    fn rmdir(&self, ctx: &Context, parent: Inode, name: &CStr) -> io::Result<()> {
        self.may_write()?;
        check_name(name)?;
        self.files.rmdir(ctx, parent, name)
    }

    fn rename(&self, ctx: &Context, from: Inode, old: &CStr, to: Inode, new: &CStr, flags: u32) -> io::Result<()> {
        self.may_write()?;
        check_name(old)?;
        check_name(new)?;
        // A whiteout is a device.
        if RenameFlags::from_bits_retain(flags).contains(RenameFlags::WHITEOUT) {
            return Err(Errno::INVAL.into());
        }
        self.files.rename(ctx, from, old, to, new, flags)
    }

    fn link(&self, ctx: &Context, inode: Inode, parent: Inode, name: &CStr) -> io::Result<Entry> {
        self.may_write()?;
        check_name(name)?;
        self.files.link(ctx, inode, parent, name).map(|entry| self.entry(entry))
    }

    fn open(
        &self,
        ctx: &Context,
        inode: Inode,
        flags: u32,
        fuse_flags: u32,
    ) -> io::Result<(Option<Handle>, OpenOptions, Option<u32>)> {
        self.may_open(flags)?;
        self.files.open(ctx, inode, flags, fuse_flags)
    }

    fn create(
        &self,
        ctx: &Context,
        parent: Inode,
        name: &CStr,
        args: CreateIn,
    ) -> io::Result<(Entry, Option<Handle>, OpenOptions, Option<u32>)> {
        self.may_write()?;
        check_name(name)?;
        let args = CreateIn { mode: args.mode & !RIGHTS_OF_OWNER, ..args };
        let (entry, handle, options, backing) = self.files.create(ctx, parent, name, args)?;
        Ok((self.entry(entry), handle, options, backing))
    }

    fn read(
        &self,
        ctx: &Context,
        inode: Inode,
        handle: Handle,
        to: &mut dyn ZeroCopyWriter,
        size: u32,
        offset: u64,
        lock_owner: Option<u64>,
        flags: u32,
    ) -> io::Result<usize> {
        self.files.read(ctx, inode, handle, to, size, offset, lock_owner, flags)
    }

    fn write(
        &self,
        ctx: &Context,
        inode: Inode,
        handle: Handle,
        from: &mut dyn ZeroCopyReader,
        size: u32,
        offset: u64,
        lock_owner: Option<u64>,
        delayed_write: bool,
        flags: u32,
        fuse_flags: u32,
    ) -> io::Result<usize> {
        self.may_write()?;
        self.files.write(ctx, inode, handle, from, size, offset, lock_owner, delayed_write, flags, fuse_flags)
    }

    fn flush(&self, ctx: &Context, inode: Inode, handle: Handle, lock_owner: u64) -> io::Result<()> {
        self.files.flush(ctx, inode, handle, lock_owner)
    }

    fn fsync(&self, ctx: &Context, inode: Inode, is_data: bool, handle: Handle) -> io::Result<()> {
        self.files.fsync(ctx, inode, is_data, handle)
    }

    fn fallocate(
        &self,
        ctx: &Context,
        inode: Inode,
        handle: Handle,
        mode: u32,
        offset: u64,
        length: u64,
    ) -> io::Result<()> {
        self.may_write()?;
        self.files.fallocate(ctx, inode, handle, mode, offset, length)
    }

    fn release(
        &self,
        ctx: &Context,
        inode: Inode,
        flags: u32,
        handle: Handle,
        flush: bool,
        unlock: bool,
        lock_owner: Option<u64>,
    ) -> io::Result<()> {
        self.files.release(ctx, inode, flags, handle, flush, unlock, lock_owner)
    }

    fn statfs(&self, ctx: &Context, inode: Inode) -> io::Result<statvfs64> {
        self.files.statfs(ctx, inode)
    }

    fn opendir(&self, ctx: &Context, inode: Inode, flags: u32) -> io::Result<(Option<Handle>, OpenOptions)> {
        self.files.opendir(ctx, inode, flags)
    }

    fn readdir(
        &self,
        ctx: &Context,
        inode: Inode,
        handle: Handle,
        size: u32,
        offset: u64,
        add: &mut dyn FnMut(DirEntry<'_>) -> io::Result<usize>,
    ) -> io::Result<()> {
        self.files.readdir(ctx, inode, handle, size, offset, add)
    }

    fn readdirplus(
        &self,
        ctx: &Context,
        inode: Inode,
        handle: Handle,
        size: u32,
        offset: u64,
        add: &mut dyn FnMut(DirEntry<'_>, Entry) -> io::Result<usize>,
    ) -> io::Result<()> {
        self.files.readdirplus(ctx, inode, handle, size, offset, &mut |dir, entry| add(dir, self.entry(entry)))
    }

    fn fsyncdir(&self, ctx: &Context, inode: Inode, is_data: bool, handle: Handle) -> io::Result<()> {
        self.files.fsyncdir(ctx, inode, is_data, handle)
    }

    fn releasedir(&self, ctx: &Context, inode: Inode, flags: u32, handle: Handle) -> io::Result<()> {
        self.files.releasedir(ctx, inode, flags, handle)
    }

    fn lseek(&self, ctx: &Context, inode: Inode, handle: Handle, offset: u64, whence: u32) -> io::Result<u64> {
        self.files.lseek(ctx, inode, handle, offset, whence)
    }
}
