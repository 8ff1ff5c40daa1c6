//! Socket on which this process waits for the agent of a box.

#[cfg(not(unix))]
pub(super) use other::ListeningSocket;
#[cfg(unix)]
pub(super) use unix::ListeningSocket;

#[cfg(not(unix))]
mod other {
    use std::io;
    use std::path::Path;

    /// A socket, which this system does not have.
    pub(in crate::boxes) struct ListeningSocket {
        pub token: Vec<u8>,
    }

    impl ListeningSocket {
        pub(in crate::boxes) fn bind(_dir: &Path) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(in crate::boxes) async fn accept(self) -> io::Result<tokio::io::DuplexStream> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }
}

#[cfg(unix)]
mod unix {
    use std::fs::{self, File, Permissions};
    use std::io;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use tokio::io::AsyncReadExt as _;
    use tokio::net::{UnixListener, UnixStream};
    use tokio::time::timeout;

    use crate::boxes::layout::SOCKET_NAME;

    /// Timeout for the connection of the agent.
    const TIMEOUT: Duration = Duration::from_secs(10);

    /// Length of the token in bytes.
    const TOKEN_SIZE: usize = 32;

    /// A socket for one connection. The container sees its directory read-only, so no program of it can take its place.
    pub(in crate::boxes) struct ListeningSocket {
        listener: UnixListener,
        path: PathBuf,
        /// Bytes that the agent sends first.
        pub token: Vec<u8>,
    }

    impl ListeningSocket {
        pub(in crate::boxes) fn bind(dir: &Path) -> io::Result<Self> {
            let open = File::open(dir)?;
            // An address is short, and the path of the directory may be long.
            let short = format!("/dev/fd/{}/{SOCKET_NAME}", open.as_raw_fd());
            let listener = UnixListener::bind(short)?;
            let path = dir.join(SOCKET_NAME);
            // The agent has another user; the directories above are closed to all others.
            fs::set_permissions(&path, Permissions::from_mode(0o666))?;
            Ok(Self { listener, path, token: rand::random::<[u8; TOKEN_SIZE]>().to_vec() })
        }

        /// Accepts the agent. Programs of the box cannot connect afterwards.
        pub(in crate::boxes) async fn accept(self) -> io::Result<UnixStream> {
            let Self { listener, path, token } = self;
            let accepted = async {
                loop {
                    let (mut stream, _) = listener.accept().await?;
                    let mut sent = [0; TOKEN_SIZE];
                    if stream.read_exact(&mut sent).await.is_ok() && sent[..] == token[..] {
                        return Ok(stream);
                    }
                }
            };
            let accepted = timeout(TIMEOUT, accepted).await;
            let _ = fs::remove_file(path);
            accepted?
        }
    }
}
