//! A guest's bytes and a host's, each to the other.

use std::io;
use std::sync::atomic::Ordering;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};

use crate::connection::Connection;

/// Bytes that are carried at one time.
const PIECE: usize = 16 << 10;

/// Carries bytes between a guest and a host until both have said all or the connection breaks; `delivered` is called once
/// all that the guest said, and that this is all, is with the system.
///
/// Given up before that, the connection is reset, so that no host takes a part for the whole.
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
    // One that breaks in one direction is broken in both.
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
