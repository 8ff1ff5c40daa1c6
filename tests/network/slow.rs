//! Server that reads slowly and reports the data it has read.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use sha2::{Digest as _, Sha256};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Initial time without reads, so that the client's data exceeds all buffers on the way.
const PAUSE: Duration = Duration::from_millis(700);

/// Starts a server, with or without TLS, and returns its port.
///
/// A client sends the number of bytes in a line, then the bytes; the response is a line with their SHA-256 digest.
pub fn start(tls: Option<Arc<ServerConfig>>) -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let tls = tls.clone();
            // A client may disconnect at any time.
            thread::spawn(move || drop(serve(stream, tls)));
        }
    });
    Ok(port)
}

fn serve(stream: TcpStream, tls: Option<Arc<ServerConfig>>) -> io::Result<()> {
    match tls {
        None => respond_with_digest(stream),
        Some(config) => {
            let connection = ServerConnection::new(config).map_err(io::Error::other)?;
            respond_with_digest(StreamOwned::new(connection, stream))
        }
    }
}

fn respond_with_digest(stream: impl Read + Write) -> io::Result<()> {
    let mut stream = BufReader::with_capacity(64 << 10, stream);
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let length = line.trim().parse::<u64>().map_err(io::Error::other)?;
    thread::sleep(PAUSE);
    let mut hash = Sha256::new();
    io::copy(&mut stream.by_ref().take(length), &mut hash)?;
    let digest_line = format!("{:x}\n", hash.finalize());
    stream.get_mut().write_all(digest_line.as_bytes())?;
    stream.get_mut().flush()
}
