//! Sockets of the pool daemons.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tokio::net::{UnixListener, UnixStream};

use crate::flavour::Flavour;

/// Directory with the sockets of the daemons, which only the user can enter.
#[derive(Debug, Clone)]
pub(crate) struct SocketDir {
    path: PathBuf,
    /// Base name of the files for one engine.
    name: String,
}

/// Longest path that a socket address can hold on every system, in bytes.
const MAX_SOCKET_PATH_SIZE: usize = 100;

impl SocketDir {
    /// Returns the socket for the engine at an address.
    pub(crate) fn new(path: PathBuf, flavour: Flavour, place: &str) -> Self {
        let digest: String = Sha256::digest(place).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        Self { path, name: format!("{flavour}-{digest}") }
    }

    /// Returns the sockets of all engines.
    pub(crate) fn list(path: &Path) -> Vec<Self> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let names = names.filter_map(|name| name.strip_suffix(".sock").map(str::to_owned));
        names.map(|name| Self { path: path.to_owned(), name }).collect()
    }

    /// Starts listening, or returns `None` if another process already listens. The file holds the lock and must be kept
    /// open as long as the listener.
    pub(crate) fn listen(&self) -> io::Result<Option<(UnixListener, File)>> {
        codebox_files::private_dir(&self.path)?;
        let lock = File::create(self.path.join(format!("{}.lock", self.name)))?;
        if lock.try_lock().is_err() {
            return Ok(None);
        }
        let socket = self.socket();
        let _ = fs::remove_file(&socket);
        let (short_path, _dir) = short_path(&socket)?;
        Ok(Some((UnixListener::bind(short_path)?, lock)))
    }

    /// Connects to the daemon, and checks that it is a process of the same user.
    pub(crate) async fn connect(&self) -> io::Result<UnixStream> {
        let (short_path, _dir) = short_path(&self.socket())?;
        let socket = UnixStream::connect(short_path).await?;
        check_same_user(&socket)?;
        Ok(socket)
    }

    /// Removes the socket, so that clients no longer find it.
    pub(crate) fn remove_socket(&self) {
        let _ = fs::remove_file(self.socket());
    }

    fn socket(&self) -> PathBuf {
        self.path.join(format!("{}.sock", self.name))
    }
}

/// Checks that the peer is a process of the same user.
pub(crate) fn check_same_user(socket: &UnixStream) -> io::Result<()> {
    if socket.peer_cred()?.uid() == crate::caller::caller().uid {
        return Ok(());
    }
    Err(io::Error::other("the peer process belongs to another user"))
}

/// Returns a path to the same file that fits into a socket address, and the open directory that the path needs.
fn short_path(path: &Path) -> io::Result<(PathBuf, Option<File>)> {
    if path.as_os_str().len() < MAX_SOCKET_PATH_SIZE {
        return Ok((path.to_owned(), None));
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let dir = File::open(parent)?;
    let via_descriptor = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&dir));
    Ok((Path::new(&via_descriptor).join(name), Some(dir)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn allows_one_listener_even_at_long_paths() -> io::Result<()> {
        let home = tempfile::tempdir()?;
        let socket_dir = SocketDir::new(home.path().join("x".repeat(150)), Flavour::Docker, "unix:///a");
        assert!(socket_dir.connect().await.is_err());
        let first = socket_dir.listen()?;
        assert!(first.is_some() && socket_dir.listen()?.is_none());
        assert!(socket_dir.connect().await.is_ok());
        drop(first);
        assert!(socket_dir.listen()?.is_some());
        Ok(())
    }
}
