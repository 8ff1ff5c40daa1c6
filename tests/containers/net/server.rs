//! Small servers on this machine's loopback.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context as _, Result};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::NamedTempFile;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Server that lives as long as this process.
pub struct Server {
    pub port: u16,
    connection_count: Arc<AtomicUsize>,
}

impl Server {
    /// Serves every connection with this function, each on a separate thread.
    pub fn start(serve: impl Fn(TcpStream) -> Result<()> + Send + Sync + 'static) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let (port, connection_count) = (listener.local_addr()?.port(), Arc::new(AtomicUsize::new(0)));
        let (serve, counter) = (Arc::new(serve), Arc::clone(&connection_count));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                counter.fetch_add(1, Ordering::Relaxed);
                let serve = Arc::clone(&serve);
                // A broken connection is the guest's matter.
                thread::spawn(move || serve(stream));
            }
        });
        Ok(Self { port, connection_count })
    }

    /// Returns the number of connections.
    pub fn connection_count(&self) -> usize {
        self.connection_count.load(Ordering::Relaxed)
    }

    /// Answers every request with this status line and headers, without a length header, and this body.
    pub fn with_response(head: &'static str, body: Vec<u8>) -> Result<Self> {
        Self::start(move |mut stream| respond(&mut stream, head, &body))
    }

    /// Echoes all data.
    pub fn echo() -> Result<Self> {
        Self::start(|mut stream| {
            let mut back = stream.try_clone()?;
            std::io::copy(&mut stream, &mut back)?;
            Ok(back.shutdown(std::net::Shutdown::Write)?)
        })
    }

    /// Answers over TLS with a certificate for these names; the file holds the certificate authority.
    pub fn with_tls(names: &[&str], body: &'static str) -> Result<(Self, NamedTempFile)> {
        let mut authority = CertificateParams::new(Vec::new())?;
        // A certificate whose subject equals its issuer would count as self-signed.
        authority.distinguished_name.push(rcgen::DnType::CommonName, "an authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let own = CertificateParams::new(names)?.signed_by(&key, &authority)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![own.der().clone()], key)?;
        let config = Arc::new(config);
        let server = Self::start(move |stream| {
            let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&config))?, stream);
            respond(&mut stream, OK, body.as_bytes())?;
            stream.conn.send_close_notify();
            Ok(stream.flush()?)
        })?;
        let file = NamedTempFile::new().context("a file")?;
        std::fs::write(file.path(), authority.pem())?;
        // The job runs as another user.
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o644))?;
        Ok((server, file))
    }
}

/// Head of a successful response.
pub const OK: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain";

fn respond(stream: &mut (impl Read + Write), head: &str, body: &[u8]) -> Result<()> {
    let (mut request, mut byte) = (Vec::new(), [0]);
    while !request.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        request.push(byte[0]);
    }
    write!(stream, "{head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len())?;
    stream.write_all(body)?;
    Ok(stream.flush()?)
}
