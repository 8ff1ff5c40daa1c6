use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use codebox_core::NetVerdict;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ALL_VERSIONS, ClientConfig, ClientConnection, ProtocolVersion, SupportedProtocolVersion};

use crate::connection::Connection;
use crate::error::{EgressError, timeout_error};
use crate::roots::TlsRoots;

/// A connection with TLS that is terminated on the host.
#[derive(Debug)]
pub struct TlsConnection(Box<TlsStream<Connection>>);

/// The negotiated parameters of a TLS connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFacts {
    /// The version of TLS, in OpenSSL's notation.
    pub version: &'static str,
    /// The cipher suite.
    pub cipher: &'static str,
    /// The negotiated ALPN protocol.
    pub alpn: Option<Vec<u8>>,
    /// The other side's leaf certificate in DER.
    pub certificate: Vec<u8>,
}

impl TlsFacts {
    pub(crate) fn of(connection: &ClientConnection) -> Self {
        let version = match connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "TLSv1.3",
        };
        let cipher = connection.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
        let own = connection.peer_certificates().and_then(|chain| chain.first());
        Self {
            version,
            cipher: cipher.unwrap_or("unknown"),
            alpn: connection.alpn_protocol().map(<[u8]>::to_vec),
            certificate: own.map(|certificate| certificate.to_vec()).unwrap_or_default(),
        }
    }
}

/// The parameters that a TLS client offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TlsOffer<'a> {
    /// The ALPN protocols.
    pub alpn: &'a [&'a str],
    /// The versions of TLS.
    pub versions: TlsVersions,
}

/// A set of secure TLS versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsVersions {
    /// All secure versions.
    #[default]
    All,
    /// Only TLS 1.2.
    OnlyTls12,
    /// Only TLS 1.3.
    OnlyTls13,
}

impl TlsVersions {
    fn supported(self) -> Vec<&'static SupportedProtocolVersion> {
        match self {
            Self::All => ALL_VERSIONS.to_vec(),
            Self::OnlyTls12 => vec![&TLS12],
            Self::OnlyTls13 => vec![&TLS13],
        }
    }
}

/// Returns the server name and the client configuration, which verifies certificates against `roots`.
pub(crate) fn client_config(
    name: &str,
    roots: &TlsRoots,
    offer: &TlsOffer<'_>,
) -> io::Result<(ServerName<'static>, Arc<ClientConfig>)> {
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    let bare = bare.strip_suffix('.').unwrap_or(bare);
    let server = ServerName::try_from(bare.to_owned()).map_err(io::Error::other)?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&offer.versions.supported())
        .map_err(io::Error::other)?
        .with_root_certificates(roots.store())
        .with_no_client_auth();
    config.alpn_protocols = offer.alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    Ok((server, Arc::new(config)))
}

impl Connection {
    /// Establishes TLS with `server_name` over the connection, with the parameters of `offer`.
    ///
    /// # Errors
    /// An error if the name is invalid, or if the handshake fails or times out.
    pub async fn start_tls(
        self,
        server_name: &str,
        roots: &TlsRoots,
        offer: &TlsOffer<'_>,
    ) -> Result<TlsConnection, EgressError> {
        let (entry, time_limit) = (self.entry.clone(), self.time_limit);
        let handshake = timeout(time_limit, TlsConnection::handshake(self, server_name, roots, offer));
        handshake.await.unwrap_or_else(|_late| Err(timeout_error(time_limit))).map_err(|source| {
            entry.verdict(NetVerdict::Failed(format!("TLS: {source}")), None);
            EgressError::Tls { host: server_name.to_owned(), source }
        })
    }
}

impl TlsConnection {
    async fn handshake(transport: Connection, name: &str, roots: &TlsRoots, offer: &TlsOffer<'_>) -> io::Result<Self> {
        let (server, config) = client_config(name, roots, offer)?;
        let stream = TlsConnector::from(config).connect(server, transport).await?;
        Ok(Self(Box::new(stream)))
    }

    /// Returns the negotiated parameters.
    #[must_use]
    pub fn facts(&self) -> TlsFacts {
        TlsFacts::of(self.0.get_ref().1)
    }

    /// Completes once more bytes can be written to the underlying connection or it has failed.
    pub fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.get_mut().0.poll_writable(cx)
    }
}

impl AsyncRead for TlsConnection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.get_mut().0).poll_read(cx, buf)
    }
}

impl AsyncWrite for TlsConnection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.get_mut().0).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.get_mut().0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.get_mut().0).poll_shutdown(cx)
    }
}
