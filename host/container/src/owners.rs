//! ID-mapped mounts that show root's files as the job's. Files that the job creates there belong to root on the host.

use std::fs;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use codebox_core::Access;
use codebox_files::ProgramFile;
use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree, unmount};

/// A user namespace that swaps root and a job's user, used only for mounts.
pub(crate) struct IdMapNamespace(OwnedFd);

impl IdMapNamespace {
    /// Creates a namespace for the job's user. `agent` is the program that keeps the namespace alive during creation.
    pub(crate) fn with(user: u32, agent: &ProgramFile) -> io::Result<Self> {
        let mut holder = agent.command();
        let mut holder =
            holder.arg("hold-user-namespace").env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let made = Self::of(&mut holder, user);
        drop(holder.stdin.take());
        let _ = holder.wait();
        made
    }

    fn of(holder: &mut Child, user: u32) -> io::Result<Self> {
        let mut byte = [0];
        holder.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?.read_exact(&mut byte)?;
        let of = |file: &str| format!("/proc/{}/{file}", holder.id());
        // User on disk, user in the mount, number of users. All users except the two are unchanged.
        let rest = u32::MAX - user - 1;
        let map = format!("0 {user} 1\n1 1 {}\n{user} 0 1\n{} {} {rest}\n", user - 1, user + 1, user + 1);
        fs::write(of("uid_map"), &map)?;
        fs::write(of("gid_map"), &map)?;
        Ok(Self(fs::File::open(of("ns/user"))?.into()))
    }

    /// Mounts `directory` at `point`, a new empty directory, with the two users swapped.
    pub(crate) fn mount(&self, directory: &Path, point: &Path, access: Access) -> io::Result<IdMappedMount> {
        let flags =
            OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
        // Fails if a part of the path has become a symbolic link since admission.
        let directory = codebox_files::open_dir_without_symlinks(directory)?;
        let tree = open_tree(&directory, "", flags | OpenTreeFlags::AT_EMPTY_PATH)?;
        let mut set = libc::MOUNT_ATTR_IDMAP | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
        if access == Access::ReadOnly {
            set |= libc::MOUNT_ATTR_RDONLY;
        }
        let namespace = u64::try_from(self.0.as_raw_fd()).map_err(io::Error::other)?;
        let attributes =
            libc::mount_attr { attr_set: set, attr_clr: 0, propagation: libc::MS_PRIVATE, userns_fd: namespace };
        set_attributes(&tree, &attributes)?;
        fs::create_dir(point)?;
        let moved = move_mount(&tree, "", CWD, point, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH);
        if let Err(error) = moved {
            let _ = fs::remove_dir(point);
            return Err(error.into());
        }
        Ok(IdMappedMount { point: point.to_owned() })
    }
}

/// Sets the attributes of a mount that is not yet attached to the file system.
#[expect(unsafe_code, reason = "no crate in use offers this call")]
fn set_attributes(tree: &OwnedFd, attributes: &libc::mount_attr) -> io::Result<()> {
    let tree: BorrowedFd<'_> = std::os::fd::AsFd::as_fd(tree);
    // SAFETY: the descriptor is open for the call. The path is a NUL-terminated empty string, which with AT_EMPTY_PATH
    // refers to the descriptor itself. The kernel only reads the structure, within exactly the size that is passed.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            std::ptr::from_ref(attributes),
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A mount of this process, unmounted on drop.
pub(crate) struct IdMappedMount {
    point: PathBuf,
}

impl IdMappedMount {
    pub(crate) fn point(&self) -> &Path {
        &self.point
    }
}

impl Drop for IdMappedMount {
    fn drop(&mut self) {
        detach_mount(&self.point);
    }
}

/// Unmounts `point` and removes the empty directory below the mount. Never reads the content, which belongs to the
/// user.
pub(crate) fn detach_mount(point: &Path) {
    let _ = unmount(point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    // Fails if another mount still covers the directory.
    let _ = fs::remove_dir(point);
}
