//! The virtual serial port to the host.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;

use codebox_vm_guest::PORT_NAME;

/// Opens the port as a stream, which ends when the host disconnects; `None` if the machine has no port.
///
/// Two threads pass the bytes on: the executor waits for sockets, and not for devices of this kind.
pub(crate) fn open() -> io::Result<Option<tokio::net::UnixStream>> {
    let Some(path) = find() else { return Ok(None) };
    let port = OpenOptions::new().read(true).write(true).open(path)?;
    let (own, other) = UnixStream::pair()?;
    let (from_port, to_port) = (port.try_clone()?, port);
    let (to_stream, from_stream) = (other.try_clone()?, other);
    thread::Builder::new().name("from-port".to_owned()).spawn(move || pass(from_port, &to_stream, &to_stream))?;
    thread::Builder::new().name("to-port".to_owned()).spawn(move || pass(&from_stream, to_port, &from_stream))?;
    own.set_nonblocking(true)?;
    tokio::net::UnixStream::from_std(own).map(Some)
}

/// Most bytes that the kernel passes to the port at once.
const PIECE: usize = 32 << 10;

/// Passes bytes on until one side ends. A port without a host is at its end.
fn pass(mut from: impl Read, mut to: impl Write, stream: &UnixStream) {
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        if to.write_all(&piece[..length]).is_err() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}

fn find() -> Option<PathBuf> {
    let ports = fs::read_dir("/sys/class/virtio-ports").ok()?.flatten();
    let named =
        |entry: &fs::DirEntry| fs::read_to_string(entry.path().join("name")).is_ok_and(|name| name.trim() == PORT_NAME);
    ports.into_iter().find(named).map(|entry| PathBuf::from("/dev").join(entry.file_name()))
}
