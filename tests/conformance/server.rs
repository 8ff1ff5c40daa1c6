//! Loopback server that all trials with a served case share.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::LazyLock;
use std::thread;

use anyhow::{Result, anyhow};

/// Placeholder for the server's port in the text and options of a served case.
const PORT: &str = "PORT";

/// Size of the large response in bytes.
const LARGE: usize = 1 << 20;

static SERVER: LazyLock<io::Result<u16>> = LazyLock::new(|| {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client may disconnect at any time.
            thread::spawn(move || drop(respond(stream)));
        }
    });
    Ok(port)
});

/// Replaces the port's placeholder in a text of a served case.
pub fn substitute_port(text: &str) -> Result<String> {
    let port = SERVER.as_ref().map_err(|error| anyhow!("the server has no port: {error}"))?;
    Ok(text.replace(PORT, &port.to_string()))
}

/// Answers one request and disconnects: `/large` with many bytes, `/away` with a redirect to another host, all else
/// with a word.
fn respond(mut stream: TcpStream) -> io::Result<()> {
    let mut head = Vec::new();
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    loop {
        match lines.next().transpose()? {
            Some(line) if !line.is_empty() => head.push(line),
            _ => break,
        }
    }
    let path = head.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
    let (status, more, body) = match path {
        "/large" => ("200 OK", "", vec![b'x'; LARGE]),
        "/away" => ("302 Found", "Location: http://other.example/\r\n", Vec::new()),
        _ => ("200 OK", "", b"hello".to_vec()),
    };
    let length = body.len();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{more}\r\n")?;
    stream.write_all(&body)
}
