//! Access of a confined process.

#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// The resources that a confined process can still access. The default grants none.
///
/// Execution cannot be granted: a confined process cannot start programs.
#[derive(Debug, Default)]
pub struct Rules {
    /// Files that can be read, and directories whose whole content can be read and listed.
    pub read: Vec<GrantedPath>,
    /// Files that can be read and written, and directories in which files, directories and symbolic links can also be
    /// created, renamed and removed. Devices, sockets and named pipes cannot be created.
    pub read_write: Vec<GrantedPath>,
    /// Directories in and below which only empty directories can be removed. This is for the parent of the process's
    /// own scratch directory. The content of its other subdirectories is protected by random names, because it cannot
    /// be listed.
    pub remove_empty_dirs: Vec<GrantedPath>,
    /// The policy for executable memory.
    pub exec_mappings: ExecMappings,
    /// The network access.
    pub network: SocketAccess,
    /// The availability of `openat2`.
    pub openat2: Openat2,
}

/// Availability of `openat2` in a confined process.
///
/// The call takes the mode of a new file from memory, which a filter cannot inspect, so it could create a set-user-id
/// program. cap-std uses the call if it is available, and otherwise opens the components of a path one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Openat2 {
    /// The call fails with `ENOSYS`.
    #[default]
    Denied,
    /// The call is available. It can create set-user-id files wherever the process can create files.
    Allowed,
}

/// Socket calls that a confined process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SocketAccess {
    /// No access: sockets cannot be created, and socket calls on inherited sockets fail.
    #[default]
    Denied,
    /// The process uses connected sockets, and receives more of them over the socket with this number. It cannot create
    /// sockets, connect, bind or listen.
    PassedSockets(i32),
}

/// A file, or a directory with everything below it.
///
/// A grant applies to the object and not to its name: renaming or replacing the object at the path later neither widens
/// nor moves the grant.
#[derive(Debug)]
pub enum GrantedPath {
    /// A path, which [`confine`](crate::confine) opens with `O_PATH | O_NOFOLLOW`. Links on the way are followed, but a
    /// link as the last component is refused.
    Path(PathBuf),
    /// An open descriptor, for which `O_PATH` suffices. This is the safe choice for paths to which others can write.
    #[cfg(unix)]
    Open(OwnedFd),
}

impl<P: Into<PathBuf>> From<P> for GrantedPath {
    fn from(path: P) -> Self {
        GrantedPath::Path(path.into())
    }
}

/// Policy for mapping memory as executable, or making it executable, after confinement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExecMappings {
    /// `PROT_EXEC` fails with `EPERM`. All code must be mapped before confinement.
    #[default]
    Denied,
    /// Code can still be mapped, including code that an attacker has written.
    Allowed,
}
