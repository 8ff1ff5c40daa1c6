//! The directory of the sessions: the socket and the lock of the process that keeps them, and their saved states.

use std::fs::File;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use codebox_files::{SocketDir, private_dir};

/// Name of the directory of the saved states.
const SAVED: &str = "saved";

/// The directory of a user's sessions. Only the user can open it.
#[derive(Debug, Clone)]
pub struct Place(SocketDir);

impl Place {
    /// Returns the place below a cache directory. Accesses nothing.
    #[must_use]
    pub fn below(cache: &Path) -> Self {
        Self(SocketDir::new(cache.join("sessions")))
    }

    /// Returns the directory of the saved states.
    pub(crate) fn saved(&self) -> PathBuf {
        self.0.path().join(SAVED)
    }

    /// Connects to the process that keeps the sessions; `None` if there is none.
    pub(crate) fn connect(&self) -> io::Result<Option<UnixStream>> {
        self.0.connect()
    }

    /// Creates the directory, and locks it for this process; `None` if another process has locked it.
    pub(crate) fn lock(&self) -> io::Result<Option<File>> {
        private_dir(self.0.path())?;
        private_dir(&self.saved())?;
        self.0.lock()
    }

    /// Listens for clients. Call it with the lock: it replaces the socket of a process that was killed.
    pub(crate) fn listen(&self) -> io::Result<UnixListener> {
        self.0.listen()
    }

    /// Returns the inode of the socket; `None` if there is none.
    pub(crate) fn socket_inode(&self) -> Option<u64> {
        self.0.socket_inode()
    }

    pub(crate) fn remove_socket(&self) {
        self.0.remove_socket();
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn clients_find_the_process_that_has_the_lock() {
        let home = tempfile::tempdir().expect("a directory");
        let long = home.path().join("d".repeat(200));
        fs::create_dir(&long).expect("a directory");
        fs::set_permissions(&long, Permissions::from_mode(0o700)).expect("it is ours");
        let place = Place::below(&long);
        assert!(place.connect().expect("it can be searched").is_none());
        let lock = place.lock().expect("it can be locked").expect("no other process has it");
        assert!(place.lock().expect("it can be opened").is_none());
        let listener = place.listen().expect("a socket");
        assert!(place.connect().expect("it can be searched").is_some());
        let mode = |path: &str| fs::metadata(long.join("sessions").join(path)).expect("it exists").permissions().mode();
        assert_eq!([mode("") & 0o777, mode("socket") & 0o777, mode("saved") & 0o777], [0o700, 0o600, 0o700]);
        drop((listener, lock));
        // The socket of a process that was killed is left behind.
        assert!(place.connect().expect("it can be searched").is_none());
        let _lock = place.lock().expect("it can be locked").expect("no other process has it");
        place.listen().expect("a socket");
    }
}
