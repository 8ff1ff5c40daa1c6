use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ProtocolVersion};

use crate::connection::Connection;
use crate::roots::TlsRoots;

/// A connection over which the host speaks TLS for the guest.
#[derive(Debug)]
pub struct TlsConnection(Box<TlsStream<Connection>>);

impl TlsConnection {
    pub(crate) async fn shake(over: Connection, name: &str, roots: &TlsRoots, alpn: &[&str]) -> io::Result<Self> {
        let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
        let bare = bare.strip_suffix('.').unwrap_or(bare);
        let server = ServerName::try_from(bare.to_owned()).map_err(io::Error::other)?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots.store())
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let stream = TlsConnector::from(Arc::new(config)).connect(server, over).await?;
        Ok(Self(Box::new(stream)))
    }

    /// The version of TLS that is spoken, as OpenSSL writes it.
    #[must_use]
    pub fn version(&self) -> &'static str {
        match self.0.get_ref().1.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "TLSv1.3",
        }
    }

    /// The cipher suite that is used.
    #[must_use]
    pub fn cipher(&self) -> &'static str {
        let suite = self.0.get_ref().1.negotiated_cipher_suite();
        suite.and_then(|suite| suite.suite().as_str()).unwrap_or("unknown")
    }

    /// The other side's own certificate, as DER.
    #[must_use]
    pub fn certificate(&self) -> &[u8] {
        let chain = self.0.get_ref().1.peer_certificates();
        chain.and_then(|chain| chain.first()).map_or(&[], |certificate| certificate.as_ref())
    }

    /// The protocol that was agreed on, of those that were offered.
    #[must_use]
    pub fn alpn(&self) -> Option<&[u8]> {
        self.0.get_ref().1.alpn_protocol()
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
