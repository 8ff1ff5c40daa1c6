//! The virtual serial port to the host.

use std::fs::{self, File, OpenOptions};
use std::io;
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
    thread::Builder::new().name("from-port".to_owned()).spawn(move || pass(from_port, to_stream))?;
    thread::Builder::new().name("to-port".to_owned()).spawn(move || pass_back(from_stream, to_port))?;
    own.set_nonblocking(true)?;
    tokio::net::UnixStream::from_std(own).map(Some)
}

fn pass(mut port: File, mut stream: UnixStream) {
    // A port without a host is at its end.
    let _ = io::copy(&mut port, &mut stream);
    let _ = stream.shutdown(Shutdown::Both);
}

fn pass_back(mut stream: UnixStream, mut port: File) {
    let _ = io::copy(&mut stream, &mut port);
    let _ = stream.shutdown(Shutdown::Both);
}

fn find() -> Option<PathBuf> {
    let ports = fs::read_dir("/sys/class/virtio-ports").ok()?.flatten();
    let named =
        |entry: &fs::DirEntry| fs::read_to_string(entry.path().join("name")).is_ok_and(|name| name.trim() == PORT_NAME);
    ports.into_iter().find(named).map(|entry| PathBuf::from("/dev").join(entry.file_name()))
}
