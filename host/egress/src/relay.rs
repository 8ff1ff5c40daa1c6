//! Relay of bytes between a guest and a host.

use std::io;
use std::sync::atomic::Ordering;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};

use crate::connection::Connection;

/// The size of the buffer of each direction, in bytes.
const PIECE: usize = 16 << 10;

/// Relays bytes between a guest and a host until both have closed their direction or the connection fails. Calls
/// `delivered` once the system has accepted all data of the guest and the end of its direction.
///
/// If the future is dropped before that, the connection is reset, so that the host does not take partial data for all
/// of it.
pub async fn relay(guest: impl AsyncRead + AsyncWrite, remote: Connection, delivered: impl FnOnce()) {
    let resets = remote.resets();
    resets.store(true, Ordering::Relaxed);
    let (from_guest, to_guest) = split(guest);
    let (from_remote, to_remote) = split(remote);
    let outward = async {
        carry(from_guest, to_remote).await?;
        resets.store(false, Ordering::Relaxed);
        delivered();
        Ok(())
    };
    // A failure in one direction ends both.
    let _: io::Result<_> = tokio::try_join!(outward, carry(from_remote, to_guest));
}

async fn carry(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece).await? {
            0 => return to.shutdown().await,
            count => {
                to.write_all(&piece[..count]).await?;
                to.flush().await?;
            }
        }
    }
}
