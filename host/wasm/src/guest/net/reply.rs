use std::io;

use codebox_core::Refusal;
use codebox_egress::EgressError;
use serde::Serialize;

/// The reply to a network request.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Success without a result.
    Empty,
    /// Success with a result.
    Done(Vec<u8>),
    /// The time limit of the request was reached.
    Timeout,
    /// A failure: its kind, from which the guest makes its error, the name of the system's error, and a message.
    Failed { kind: &'static str, errno: &'static str, text: String },
}

/// The JSON form of a failure.
#[derive(Serialize)]
struct Failure<'a> {
    kind: &'a str,
    errno: &'a str,
    text: &'a str,
}

impl Reply {
    pub(super) fn failed(kind: &'static str, errno: &'static str, text: &str) -> Self {
        Self::Failed { kind, errno, text: text.to_owned() }
    }

    /// Returns the failure for a handle that does not exist.
    pub(super) fn closed() -> Self {
        Self::failed("other", "EBADF", "Bad file descriptor")
    }

    /// Returns the failure for a host that is not granted.
    pub(super) fn denied(refusal: &Refusal) -> Self {
        Self::failed("denied", "EACCES", &refusal.to_string())
    }

    /// Returns the failure of TLS on a host without trusted root certificates.
    pub(super) fn missing_roots() -> Self {
        Self::failed("tls", "EPROTO", "the host has no trusted root certificates")
    }

    /// Converts a failure to connect or to start TLS.
    pub(super) fn from_egress(error: &EgressError) -> Self {
        match error {
            // The address of a granted name is not disclosed to the guest.
            EgressError::Refused(refusal) if refusal.address().is_some() => {
                Self::failed("denied", "EACCES", &format!("cannot connect: {}", refusal.reason))
            }
            EgressError::Refused(refusal) => Self::denied(refusal),
            EgressError::Failed { .. } if error.is_unknown_name() => {
                Self::failed("name", "EIO", "Name or service not known")
            }
            EgressError::Failed { source, .. } => Self::from_io(source),
            EgressError::Tls { source, .. } if error.is_certificate() => {
                Self::failed("certificate", "EPROTO", &source.to_string())
            }
            EgressError::Tls { source, .. } => match errno_name(source) {
                ("EIO", _) => Self::failed("tls", "EPROTO", &source.to_string()),
                _ => Self::from_io(source),
            },
        }
    }

    /// Converts an I/O error of an open connection.
    pub(super) fn from_io(error: &io::Error) -> Self {
        let (errno, text) = errno_name(error);
        Self::failed("io", errno, text)
    }

    /// Encodes the reply for the guest.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        let with = |kind: u8, mut bytes: Vec<u8>| {
            bytes.insert(0, kind);
            bytes
        };
        match self {
            Self::Empty => Vec::new(),
            Self::Done(bytes) => with(0, bytes),
            Self::Failed { kind, errno, text } => {
                with(1, serde_json::to_vec(&Failure { kind, errno, text: &text }).unwrap_or_default())
            }
            Self::Timeout => vec![2],
        }
    }
}

/// Returns the name and the message of an I/O error.
pub(super) fn errno_name(error: &io::Error) -> (&'static str, &'static str) {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::ConnectionRefused => ("ECONNREFUSED", "Connection refused"),
        Kind::ConnectionReset => ("ECONNRESET", "Connection reset by peer"),
        Kind::ConnectionAborted => ("ECONNABORTED", "Software caused connection abort"),
        Kind::BrokenPipe => ("EPIPE", "Broken pipe"),
        Kind::NotConnected => ("ENOTCONN", "Transport endpoint is not connected"),
        Kind::TimedOut => ("ETIMEDOUT", "Connection timed out"),
        Kind::HostUnreachable => ("EHOSTUNREACH", "No route to host"),
        Kind::NetworkUnreachable => ("ENETUNREACH", "Network is unreachable"),
        Kind::PermissionDenied => ("EACCES", "Permission denied"),
        _ => ("EIO", "Input/output error"),
    }
}
