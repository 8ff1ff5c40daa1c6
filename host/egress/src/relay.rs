//! Relay of bytes between a guest and a host.

use std::io;
use std::sync::atomic::Ordering;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};

use crate::connection::Connection;

/// The size of the buffer of each direction, in bytes.
const BUFFER_SIZE: usize = 16 << 10;

/// Relays bytes between a guest and a host until both have closed their direction or the connection fails. Calls
/// `delivered` once the system has accepted all data of the guest and the end of its direction.
///
/// If the future is dropped before that, the connection is reset, so that the host does not take partial data for all
/// of it.
pub async fn relay(guest: impl AsyncRead + AsyncWrite, remote: Connection, delivered: impl FnOnce()) {
    let reset_on_drop = remote.reset_on_drop();
    reset_on_drop.store(true, Ordering::Relaxed);
    let (from_guest, to_guest) = split(guest);
    let (from_remote, to_remote) = split(remote);
    let outbound = async {
        copy(from_guest, to_remote).await?;
        reset_on_drop.store(false, Ordering::Relaxed);
        delivered();
        Ok(())
    };
    // A failure in one direction ends both.
    let _: io::Result<_> = tokio::try_join!(outbound, copy(from_remote, to_guest));
}

async fn copy(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_SIZE];
    loop {
        match from.read(&mut buffer).await? {
            0 => return to.shutdown().await,
            count => {
                to.write_all(&buffer[..count]).await?;
                to.flush().await?;
            }
        }
    }
}
