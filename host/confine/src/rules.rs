//! What a confined process keeps.

#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// The places a confined process can still reach; the default is none at all.
///
/// Nothing can be granted for execution: a confined process starts no program.
#[derive(Debug, Default)]
pub struct Rules {
    /// Files that can be read, and directories in which everything can be read and listed.
    pub read: Vec<Place>,
    /// Files that can be read and written, and directories in which files, directories and symbolic links
    /// can also be made, renamed and removed. Devices, sockets and named pipes cannot be made.
    pub read_write: Vec<Place>,
    /// Directories in and below which empty directories can be removed and nothing else: for the one that holds the
    /// process's own scratch directory. What lies below other directories in it is protected by names that cannot be
    /// guessed, because they cannot be listed.
    pub retire: Vec<Place>,
    /// Whether memory can still be mapped or made executable.
    pub exec_mappings: ExecMappings,
    /// What it keeps of the network.
    pub network: Network,
    /// Whether `openat2` is available.
    pub openat2: Openat2,
}

/// Whether a confined process can call `openat2`.
///
/// The call takes the mode of a new file from memory, where no filter looks, so it could make a set-user-id program.
/// cap-std uses it where it is there, and otherwise opens the components of a path one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Openat2 {
    /// It answers `ENOSYS`.
    #[default]
    Denied,
    /// It is there, and with it a way to make set-user-id files where the process can make files at all.
    Allowed,
}

/// What a confined process keeps of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    /// Nothing: no socket is made, and none that was inherited is spoken to as one.
    #[default]
    Denied,
    /// It speaks over sockets that are connected, and is handed more of them over the socket of this number. It makes
    /// none, and connects, binds and listens with none.
    Handed(i32),
}

/// A file or directory, with all that is below it.
///
/// A grant sticks to the object and not to its name: renaming or replacing what stands at the path
/// afterwards neither widens nor moves it.
#[derive(Debug)]
pub enum Place {
    /// A path, opened by [`confine`](crate::confine) with `O_PATH | O_NOFOLLOW`: links on the way are
    /// followed, but a last component that is a link is refused.
    Path(PathBuf),
    /// What the caller already opened, `O_PATH` being enough: the safe choice where others can write.
    #[cfg(unix)]
    Open(OwnedFd),
}

impl<P: Into<PathBuf>> From<P> for Place {
    fn from(path: P) -> Self {
        Place::Path(path.into())
    }
}

/// Whether memory can be mapped or made executable after confinement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExecMappings {
    /// `PROT_EXEC` fails with `EPERM`: all code must be mapped before.
    #[default]
    Denied,
    /// Code images can still be mapped, and so can anything else an attacker writes.
    Allowed,
}
