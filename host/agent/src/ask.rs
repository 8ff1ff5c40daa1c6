//! The `ask` command: a query from a program of a job to the host.

use std::io::{self, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};

use codebox_agent::{ASK_SOCKET, MAX_ASK};

/// Sends standard input to the host as a query and prints the answer.
pub(crate) fn ask() -> io::Result<()> {
    let mut question = Vec::new();
    io::stdin().lock().take(MAX_ASK as u64 + 1).read_to_end(&mut question)?;
    if question.len() > MAX_ASK {
        return Err(io::Error::other("request is too long"));
    }
    let mut socket = UnixStream::connect_addr(&SocketAddr::from_abstract_name(ASK_SOCKET)?)?;
    socket.write_all(&question)?;
    socket.shutdown(std::net::Shutdown::Write)?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer)?;
    io::stdout().write_all(&answer)
}
