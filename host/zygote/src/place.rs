//! The directory of the host process: its socket, its lock, and the time of the last run.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Name of the socket.
const SOCKET: &str = "socket";

/// Name of the file that a running host process locks.
const LOCK: &str = "lock";

/// Name of the file whose time of change is the time of the last run without a host process.
const LAST_RUN: &str = "last-run";

/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// The directory of a user's host process. Only the user can open it.
#[derive(Debug, Clone)]
pub struct Place(PathBuf);

impl Place {
    /// Returns the place below a cache directory. Accesses nothing.
    #[must_use]
    pub fn below(cache: &Path) -> Self {
        Self(cache.join("host"))
    }

    /// Opens the directory; `None` if it is missing or open to other users.
    pub(crate) fn open(&self) -> io::Result<Option<OpenPlace>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = match rustix::fs::open(&self.0, flags, Mode::empty()) {
            Ok(dir) => dir,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let found = rustix::fs::fstat(&dir)?;
        let is_private = Mode::from_raw_mode(found.st_mode).intersection(Mode::RWXG | Mode::RWXO).is_empty()
            && found.st_uid == rustix::process::geteuid().as_raw();
        Ok(is_private.then_some(OpenPlace(dir)))
    }

    /// Opens the directory, and creates it if it is missing.
    pub(crate) fn create(&self) -> io::Result<OpenPlace> {
        match DirBuilder::new().recursive(true).mode(0o700).create(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let refused = || io::Error::new(io::ErrorKind::PermissionDenied, "other users can open the directory");
        self.open()?.ok_or_else(refused)
    }

    /// Returns true if a host process is running.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        let Ok(Some(place)) = self.open() else { return false };
        matches!(place.try_lock(), Ok(None))
    }

    /// Records a run at this time, and returns true if the last one was within `period`.
    ///
    /// # Errors
    /// The error of creating the directory or changing the file.
    pub fn record_run(&self, period: Duration) -> io::Result<bool> {
        let file = self.create()?.file(LAST_RUN)?;
        let metadata = file.metadata()?;
        // A new file was made just now, and is empty.
        let was_used = metadata.len() > 0;
        let now = SystemTime::now();
        let is_recent = was_used && now.duration_since(metadata.modified()?).is_ok_and(|age| age <= period);
        file.set_modified(now)?;
        if !was_used {
            file.set_len(1)?;
        }
        Ok(is_recent)
    }

    /// Returns the path, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

/// An open directory.
pub(crate) struct OpenPlace(OwnedFd);

impl OpenPlace {
    fn file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.0, name, flags, Mode::from_raw_mode(0o600))?))
    }

    /// Locks the place for a host process; `None` if another one holds the lock.
    pub(crate) fn try_lock(&self) -> io::Result<Option<File>> {
        let file = self.file(LOCK)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }

    /// Address of a socket in this directory. The path to the directory itself may be longer than an address.
    fn address(&self) -> io::Result<SocketAddrUnix> {
        Ok(SocketAddrUnix::new(format!("/proc/self/fd/{}/{SOCKET}", self.0.as_raw_fd()))?)
    }

    /// Connects to the host process; `None` if there is none, or if it does not accept the clients that wait already.
    pub(crate) fn connect(&self) -> io::Result<Option<OwnedFd>> {
        let socket = socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        match rustix::net::connect(&socket, &self.address()?) {
            Ok(()) => {
                rustix::io::ioctl_fionbio(&socket, false)?;
                Ok(Some(socket))
            }
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::CONNREFUSED | rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Listens for clients. Call it with the lock: it replaces the socket of a host process that was killed.
    pub(crate) fn listen(&self) -> io::Result<OwnedFd> {
        self.remove_socket()?;
        let socket = socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        rustix::net::bind(&socket, &self.address()?)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(socket)
    }

    pub(crate) fn remove_socket(&self) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.0, SOCKET, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the inode of the socket; `None` if there is none.
    pub(crate) fn socket_inode(&self) -> Option<u64> {
        rustix::fs::statat(self.0.as_fd(), SOCKET, AtFlags::SYMLINK_NOFOLLOW).ok().map(|found| found.st_ino)
    }
}

/// Creates a socket that preserves the bounds of messages.
fn socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_directory_that_others_can_open_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let place = Place::below(dir.path());
        assert!(place.open().expect("it can be inspected").is_none());
        place.create().expect("it is created");
        assert!(place.open().expect("it can be inspected").is_some());
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o750)).expect("it is ours");
        assert!(place.open().expect("it can be inspected").is_none());
        assert!(place.create().is_err());
    }

    #[test]
    fn the_second_run_within_the_period_is_recent() {
        let dir = tempfile::tempdir().expect("a directory");
        let place = Place::below(dir.path());
        let minute = Duration::from_secs(60);
        assert!(!place.record_run(minute).expect("it is recorded"));
        assert!(place.record_run(minute).expect("it is recorded"));
        let file = File::options().write(true).open(place.path().join(LAST_RUN)).expect("it exists");
        file.set_modified(SystemTime::now() - 2 * minute).expect("it is ours");
        assert!(!place.record_run(minute).expect("it is recorded"));
    }

    #[test]
    fn one_process_holds_the_lock() {
        let dir = tempfile::tempdir().expect("a directory");
        let place = Place::below(dir.path());
        assert!(!place.is_in_use());
        let open = place.create().expect("it is created");
        let lock = open.try_lock().expect("it can be locked").expect("no other process holds it");
        assert!(place.is_in_use() && open.try_lock().expect("it can be opened").is_none());
        drop(lock);
        // Processes that other tests start may hold a copy of the descriptor for a moment.
        let is_free = || {
            std::thread::sleep(Duration::from_millis(5));
            !place.is_in_use()
        };
        assert!((0..1000).any(|_| is_free()));
    }
}
