//! Where keepers listen.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tokio::net::{UnixListener, UnixStream};

use crate::engine::Flavour;

/// The folder of keepers' sockets: nobody but the user can enter it.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    path: PathBuf,
    /// The name of one engine's.
    name: String,
}

/// The longest path that a socket's address holds on any system.
const LONGEST: usize = 100;

impl Folder {
    /// For the engine at a place.
    pub(crate) fn new(path: PathBuf, flavour: Flavour, place: &str) -> Self {
        let digest: String = Sha256::digest(place).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        Self { path, name: format!("{flavour}-{digest}") }
    }

    /// Those of all engines.
    pub(crate) fn all(path: &Path) -> Vec<Self> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let names = names.filter_map(|name| name.strip_suffix(".sock").map(str::to_owned));
        names.map(|name| Self { path: path.to_owned(), name }).collect()
    }

    /// Listens there as the only one; nothing where somebody does already. The file is to be kept for as long.
    pub(crate) fn listen(&self) -> io::Result<Option<(UnixListener, File)>> {
        codebox_files::private_dir(&self.path)?;
        let lock = File::create(self.path.join(format!("{}.lock", self.name)))?;
        if lock.try_lock().is_err() {
            return Ok(None);
        }
        let socket = self.socket();
        let _ = fs::remove_file(&socket);
        let (short, _dir) = short(&socket)?;
        Ok(Some((UnixListener::bind(short)?, lock)))
    }

    /// Connects to who listens there.
    pub(crate) async fn connect(&self) -> io::Result<UnixStream> {
        let (short, _dir) = short(&self.socket())?;
        let socket = UnixStream::connect(short).await?;
        is_ours(&socket)?;
        Ok(socket)
    }

    /// Leaves nothing for others to find.
    pub(crate) fn leave(&self) {
        let _ = fs::remove_file(self.socket());
    }

    fn socket(&self) -> PathBuf {
        self.path.join(format!("{}.sock", self.name))
    }
}

/// Whether the other end is a process of the same user.
pub(crate) fn is_ours(socket: &UnixStream) -> io::Result<()> {
    if socket.peer_cred()?.uid() == crate::caller::caller().0 {
        return Ok(());
    }
    Err(io::Error::other("the other end is another user's"))
}

/// A path to the same file that an address has room for, and what it goes by.
fn short(path: &Path) -> io::Result<(PathBuf, Option<File>)> {
    if path.as_os_str().len() < LONGEST {
        return Ok((path.to_owned(), None));
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let dir = File::open(parent)?;
    let through = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&dir));
    Ok((Path::new(&through).join(name), Some(dir)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_listens_at_a_time_however_long_the_path() -> io::Result<()> {
        let home = tempfile::tempdir()?;
        let folder = Folder::new(home.path().join("x".repeat(150)), Flavour::Docker, "unix:///a");
        assert!(folder.connect().await.is_err());
        let first = folder.listen()?;
        assert!(first.is_some() && folder.listen()?.is_none());
        assert!(folder.connect().await.is_ok());
        drop(first);
        assert!(folder.listen()?.is_some());
        Ok(())
    }
}
