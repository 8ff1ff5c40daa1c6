//! Pipes and terminals of commands.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use tokio::net::unix::pipe;

/// Output of a command: the reading end of a pipe, or the master of a terminal.
pub(super) struct OutputStream(pipe::Receiver);

impl OutputStream {
    pub(super) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        set_nonblocking(&descriptor)?;
        // The terminal is read in the same way and is no pipe.
        pipe::Receiver::from_owned_fd_unchecked(descriptor).map(Self)
    }

    /// Reads bytes; an empty result is the end. Cancel safe.
    pub(super) async fn read(&self, size: usize) -> Vec<u8> {
        loop {
            if self.0.readable().await.is_err() {
                return Vec::new();
            }
            // A command that waits has no buffer.
            let mut buffer = Vec::with_capacity(size);
            match self.0.try_read_buf(&mut buffer) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                // A terminal without processes fails to be read.
                Ok(_) | Err(_) => return buffer,
            }
        }
    }

    /// Reads bytes that are there; `None` if there are none now, and an empty result is the end.
    ///
    /// It asks the system itself: the executor learns of bytes a moment after they have been written.
    pub(super) fn read_available(&self, size: usize) -> Option<Vec<u8>> {
        let mut buffer = vec![0; size];
        loop {
            match rustix::io::read(&self.0, &mut buffer) {
                Err(Errno::AGAIN) => return None,
                Err(Errno::INTR) => {}
                result => {
                    buffer.truncate(result.unwrap_or(0));
                    return Some(buffer);
                }
            }
        }
    }
}

impl AsFd for OutputStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Input of a command: the writing end of a pipe, or the master of a terminal.
pub(super) struct InputStream(pipe::Sender);

impl InputStream {
    pub(super) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        set_nonblocking(&descriptor)?;
        pipe::Sender::from_owned_fd_unchecked(descriptor).map(Self)
    }

    /// Writes a part of the bytes, and returns its length. Cancel safe.
    pub(super) async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.0.writable().await?;
            match self.0.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return written,
            }
        }
    }
}

fn set_nonblocking(descriptor: &OwnedFd) -> io::Result<()> {
    Ok(fcntl_setfl(descriptor, fcntl_getfl(descriptor)? | OFlags::NONBLOCK)?)
}
