//! The socket of Podman in a virtual machine, on this machine.

use std::fs;
use std::io;
use std::path::Path;

use tokio::net::{UnixListener, UnixStream};

use crate::channel::Channel;

/// Creates the socket, in a directory that only the user can reach. One that is left by a process that was killed is replaced.
///
/// # Errors
/// Returns an error if it cannot be created.
pub fn listen(socket: &Path) -> io::Result<UnixListener> {
    if let Some(dir) = socket.parent() {
        codebox_files::private_dir(dir)?;
    }
    match fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(socket)?;
    fs::set_permissions(socket, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(listener)
}

/// Connects each client of the socket to Podman, until the machine ends the connection.
pub async fn forward(listener: &UnixListener, channel: &Channel) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = channel.closed() => return,
        };
        // A client that is gone before it was accepted is no failure.
        let Ok((client, _)) = accepted else { continue };
        tokio::spawn(pass(client, channel.clone()));
    }
}

async fn pass(mut client: UnixStream, channel: Channel) {
    if let Ok(mut podman) = channel.podman().await {
        // The end of either side is that of the other.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut podman).await;
    }
}
