//! The `query` command: a query from a program of a job to the host.

use std::io::{self, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};

use codebox_agent::MAX_QUERY_SIZE;

use crate::attached;

/// Sends standard input to the host as a query and prints the answer.
pub(crate) fn query() -> io::Result<()> {
    let mut query = Vec::new();
    io::stdin().lock().take(MAX_QUERY_SIZE as u64 + 1).read_to_end(&mut query)?;
    if query.len() > MAX_QUERY_SIZE {
        return Err(io::Error::other("request is too long"));
    }
    let mut socket = UnixStream::connect_addr(&SocketAddr::from_abstract_name(attached::query_socket())?)?;
    socket.write_all(&query)?;
    socket.shutdown(std::net::Shutdown::Write)?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer)?;
    io::stdout().write_all(&answer)
}
