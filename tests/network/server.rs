//! Loopback server, with and without TLS, whose paths select its behaviour.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::websocket;

/// Size of the large body in bytes.
pub const LARGE: usize = 1 << 20;

/// Server that runs as long as the tests.
pub struct Server {
    pub address: SocketAddr,
    open: Arc<ConnectionCounts>,
    /// Certificate, if the server uses TLS.
    pub certificate: Option<String>,
    /// TLS configuration, if the server uses TLS.
    pub tls: Option<Arc<ServerConfig>>,
}

/// Current and maximum number of open connections.
#[derive(Default)]
struct ConnectionCounts {
    current: AtomicUsize,
    max: AtomicUsize,
}

impl Server {
    /// Starts a plain HTTP server.
    pub fn plain() -> Result<Self> {
        Self::start("127.0.0.1", None)
    }

    /// Starts a plain HTTP server at every address of this machine.
    pub fn on_all_interfaces() -> Result<Self> {
        Self::start("0.0.0.0", None)
    }

    /// Starts a TLS server with a self-signed certificate for this name.
    pub fn tls(name: &str) -> Result<Self> {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec![name.to_owned()])?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)?;
        let config = Arc::new(config);
        let mut server = Self::start("127.0.0.1", Some(Arc::clone(&config)))?;
        server.certificate = Some(cert.pem());
        server.tls = Some(config);
        Ok(server)
    }

    fn start(at: &str, tls: Option<Arc<ServerConfig>>) -> Result<Self> {
        let listener = TcpListener::bind((at, 0))?;
        let (address, open) = (listener.local_addr()?, Arc::<ConnectionCounts>::default());
        let counters = Arc::clone(&open);
        thread::spawn(move || {
            for (number, stream) in (1..).zip(listener.incoming().flatten()) {
                let (tls, open) = (tls.clone(), Arc::clone(&counters));
                open.max.fetch_max(open.current.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                thread::spawn(move || {
                    // A client may disconnect at any time.
                    drop(serve(stream, tls, number));
                    open.current.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Ok(Self { address, open, certificate: None, tls: None })
    }

    /// Returns the maximum number of connections that were open at one time.
    pub fn max_open(&self) -> usize {
        self.open.max.load(Ordering::Relaxed)
    }

    /// Returns the number of connections to this plain server before this call, which makes one more. The server
    /// accepts connections in their order of arrival.
    pub fn count(&self) -> Result<usize> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.write_all(b"GET /connection HTTP/1.1\r\nConnection: close\r\n\r\n")?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        let number = response.rsplit("\r\n").next().unwrap_or_default();
        Ok(number.parse::<usize>().with_context(|| response.clone())? - 1)
    }
}

fn serve(stream: TcpStream, tls: Option<Arc<ServerConfig>>, number: usize) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match tls {
        None => serve_requests(stream, number),
        Some(config) => {
            let connection = ServerConnection::new(config).map_err(io::Error::other)?;
            serve_requests(StreamOwned::new(connection, stream), number)
        }
    }
}

struct Request {
    method: String,
    target: String,
    headers: Vec<String>,
    body: Vec<u8>,
}

fn serve_requests(stream: impl Read + Write, number: usize) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream)? {
        if let Some(path) = request.target.strip_prefix("/ws/") {
            return websocket::serve(stream.into_inner(), path, &request.headers);
        }
        handle_request(stream.get_mut(), &request, number)?;
        if request.headers.iter().any(|line| line.eq_ignore_ascii_case("connection: close")) {
            break;
        }
    }
    Ok(())
}

fn read(stream: &mut BufReader<impl Read>) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split(' ').map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        match line.trim_end() {
            "" => break,
            header => headers.push(header.to_owned()),
        }
    }
    let value = |name: &str| {
        let found =
            headers.iter().filter_map(|line| line.split_once(':')).find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim().to_owned())
    };
    let mut body = Vec::new();
    if let Some(length) = value("content-length").and_then(|length| length.parse().ok()) {
        stream.by_ref().take(length).read_to_end(&mut body)?;
    } else if value("transfer-encoding").is_some() {
        loop {
            let mut size = String::new();
            stream.read_line(&mut size)?;
            let size = u64::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
            stream.by_ref().take(size).read_to_end(&mut body)?;
            stream.read_line(&mut String::new())?;
            if size == 0 {
                break;
            }
        }
    }
    Ok(Some(Request { method, target, headers, body }))
}

/// Returns the value of the header `Authorization`.
fn authorization(request: &Request) -> &str {
    let headers = request.headers.iter().filter_map(|line| line.split_once(": "));
    headers
        .filter(|(name, _)| name.eq_ignore_ascii_case("authorization"))
        .map(|(_, value)| value)
        .next()
        .unwrap_or_default()
}

fn handle_request(to: &mut impl Write, request: &Request, number: usize) -> io::Result<()> {
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let respond = |to: &mut dyn Write, status: &str, more: &str, body: &[u8]| {
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{more}\r\n", body.len());
        to.write_all(&[head.as_bytes(), body].concat())?;
        to.flush()
    };
    match path {
        "/hello" => respond(to, "200 OK", "X-Greeting: hello\r\n", b"hello"),
        "/connection" => respond(to, "200 OK", "", number.to_string().as_bytes()),
        "/echo" => respond(to, "200 OK", &format!("X-Method: {}\r\n", request.method), &request.body),
        "/headers" => respond(to, "200 OK", "", request.headers.join("\n").as_bytes()),
        "/reversed" => respond(to, "200 OK", "", authorization(request).chars().rev().collect::<String>().as_bytes()),
        "/mirror" => respond(to, "200 OK", &format!("X-Mirror: {}\r\n", authorization(request)), b""),
        "/padded" => {
            let padding = "-".repeat(query.parse().unwrap_or_default());
            respond(to, "200 OK", "", format!("{padding}{}", authorization(request)).as_bytes())
        }
        "/reason" => respond(to, &format!("200 Key {}", authorization(request)), "", b""),
        "/gzip" => {
            let mut packed = GzEncoder::new(Vec::new(), Compression::default());
            packed.write_all("hello ".repeat(100).as_bytes())?;
            respond(to, "200 OK", "Content-Encoding: gzip\r\n", &packed.finish()?)
        }
        "/large" => respond(to, "200 OK", "", &vec![b'x'; LARGE]),
        "/redirect" => respond(to, "302 Found", &format!("Location: {query}\r\n"), b""),
        "/many" => {
            let header_lines: String = (0..150).map(|number| format!("X-{number}: v\r\n")).collect();
            respond(to, "200 OK", &header_lines, b"many")
        }
        "/status" => respond(to, &format!("{query} Own"), "", b"own"),
        // A body shorter than announced, followed by a closed connection.
        "/cut" => {
            to.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")?;
            to.flush()?;
            Err(io::Error::other("cut off"))
        }
        "/unchunked" => {
            to.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\nZZ\r\n")?;
            to.flush()
        }
        "/missing" => respond(to, "404 Not Found", "", b"nothing"),
        "/never" => {
            thread::sleep(Duration::from_secs(60));
            Ok(())
        }
        "/pieces" => {
            to.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            for piece in ["one ", "two ", "three"] {
                to.write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes())?;
                to.flush()?;
                thread::sleep(Duration::from_millis(20));
            }
            to.write_all(b"0\r\n\r\n")?;
            to.flush()
        }
        "/endless" => {
            to.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            loop {
                to.write_all(b"5\r\ntick\n\r\n")?;
                to.flush()?;
                thread::sleep(Duration::from_millis(5));
            }
        }
        // A body that arrives as fast as the client reads.
        "/flood" => {
            to.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            loop {
                to.write_all(b"5\r\ntick\n\r\n")?;
                to.flush()?;
            }
        }
        _ => respond(to, "400 Bad Request", "", b""),
    }
}
