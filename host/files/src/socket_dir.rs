//! The directory of a process that serves clients of the same user: its socket and its lock.

use std::fs::{self, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::private_dir;

/// Name of the socket.
const SOCKET: &str = "socket";

/// Name of the file that the process locks.
const LOCK: &str = "lock";

/// Directory with a socket and a lock. Only the user can open it.
#[derive(Debug, Clone)]
pub struct SocketDir(PathBuf);

impl SocketDir {
    /// Returns the directory with this path. Accesses nothing.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Returns the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Connects to the process; `None` if there is none.
    ///
    /// # Errors
    /// Returns an error if the socket cannot be reached.
    pub fn connect(&self) -> io::Result<Option<UnixStream>> {
        use io::ErrorKind::{ConnectionRefused, NotFound};

        match self.with_address(|socket| UnixStream::connect(socket)) {
            Ok(stream) => Ok(Some(stream)),
            Err(error) if matches!(error.kind(), ConnectionRefused | NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates the directory, and locks it for this process; `None` if another process has locked it.
    ///
    /// # Errors
    /// Returns an error if the directory belongs to another user, or cannot be created.
    pub fn lock(&self) -> io::Result<Option<File>> {
        private_dir(&self.0)?;
        let file = File::options().read(true).write(true).create(true).truncate(false).open(self.0.join(LOCK))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Listens for clients. Call it with the lock: it replaces the socket of a process that was killed.
    ///
    /// # Errors
    /// Returns an error if the socket cannot be created.
    pub fn listen(&self) -> io::Result<UnixListener> {
        self.remove_socket();
        let listener = self.with_address(|socket| UnixListener::bind(socket))?;
        fs::set_permissions(self.0.join(SOCKET), Permissions::from_mode(0o600))?;
        Ok(listener)
    }

    /// Returns the inode of the socket; `None` if there is none.
    #[must_use]
    pub fn socket_inode(&self) -> Option<u64> {
        use std::os::unix::fs::MetadataExt as _;

        fs::symlink_metadata(self.0.join(SOCKET)).ok().map(|metadata| metadata.ino())
    }

    /// Removes the socket, so that clients no longer find it.
    pub fn remove_socket(&self) {
        let _ = fs::remove_file(self.0.join(SOCKET));
    }

    /// Calls a function with a path of the socket that is short enough for an address: the path of the directory may be longer.
    fn with_address<T>(&self, function: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd as _;

            let dir = File::open(&self.0)?;
            function(Path::new(&format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd())))
        }
        #[cfg(not(target_os = "linux"))]
        function(&self.0.join(SOCKET))
    }
}
