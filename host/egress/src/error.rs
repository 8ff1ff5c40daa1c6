use std::io;

use codebox_core::Refusal;
use thiserror::Error;
use tokio_rustls::rustls;

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum EgressError {
    /// It may not be made. What this shows is for whoever started the job, and the reason alone for the guest.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It could not be made.
    #[error("cannot connect to {host}:{port}: {source}")]
    Failed {
        /// The host as it was asked for.
        host: String,
        /// The port.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// No TLS with that host: its certificate, or the way it speaks.
    #[error("cannot speak TLS with {host}: {source}")]
    Tls {
        /// The host as it was asked for.
        host: String,
        /// Why.
        source: io::Error,
    },
}

impl EgressError {
    /// Whether it is the other side's certificate that does not hold.
    #[must_use]
    pub fn is_certificate(&self) -> bool {
        let Self::Tls { source, .. } = self else { return false };
        let cause = source.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        matches!(cause, Some(rustls::Error::InvalidCertificate(_)))
    }

    /// Whether the host's name leads nowhere.
    #[must_use]
    pub fn is_unknown_name(&self) -> bool {
        matches!(self, Self::Failed { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}
