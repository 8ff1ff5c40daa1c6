use std::io;
use std::time::Duration;

use codebox_core::Refusal;
use thiserror::Error;
use tokio_rustls::rustls;

/// Error of a connection.
#[derive(Debug, Error)]
pub enum EgressError {
    /// The connection is refused. The whole error is for the user who started the job; the guest sees only the reason.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The connection failed.
    #[error("cannot connect to {host}:{port}: {source}")]
    Failed {
        /// The requested host.
        host: String,
        /// The port.
        port: u16,
        /// The cause.
        source: io::Error,
    },
    /// The TLS handshake with the host failed, because of its certificate or of the protocol.
    #[error("TLS handshake failed with {host}: {source}")]
    Tls {
        /// The requested host.
        host: String,
        /// The cause.
        source: io::Error,
    },
}

impl EgressError {
    /// Returns true if the certificate of the other side is invalid.
    #[must_use]
    pub fn is_certificate(&self) -> bool {
        let Self::Tls { source, .. } = self else { return false };
        let cause = source.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        matches!(cause, Some(rustls::Error::InvalidCertificate(_)))
    }

    /// Returns true if the host's name does not resolve.
    #[must_use]
    pub fn is_unknown_name(&self) -> bool {
        matches!(self, Self::Failed { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Returns the error for an operation that did not finish in `time`.
pub(crate) fn timeout_error(time: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("timed out after {} s", time.as_secs_f32()))
}
