use std::io;

use codebox_core::Refusal;
use codebox_egress::EgressError;
use serde::Serialize;

/// What a request is answered with.
#[derive(Debug)]
pub(super) enum Reply {
    /// It was done, and there is nothing to say.
    Nothing,
    /// What was asked for.
    Done(Vec<u8>),
    /// It was not done in time.
    Late,
    /// Why it was not done, as JSON.
    Failed(Vec<u8>),
}

#[derive(Serialize)]
struct Failure<'a> {
    /// What kind of error the guest makes of it.
    kind: &'a str,
    /// The name of the system's error.
    errno: &'a str,
    text: &'a str,
}

impl Reply {
    pub(super) fn failed(kind: &str, errno: &str, text: &str) -> Self {
        Self::Failed(serde_json::to_vec(&Failure { kind, errno, text }).unwrap_or_default())
    }

    /// There is no such connection.
    pub(super) fn closed() -> Self {
        Self::failed("other", "EBADF", "Bad file descriptor")
    }

    /// A host that was named is not granted.
    pub(super) fn denied(refusal: &Refusal) -> Self {
        Self::failed("denied", "EACCES", &refusal.to_string())
    }

    /// The host trusts nobody, so that there is no TLS.
    pub(super) fn no_roots() -> Self {
        Self::failed("tls", "EPROTO", "the host has no certificates to trust")
    }

    /// Why a connection was not made, or its TLS was not.
    pub(super) fn of_egress(error: &EgressError) -> Self {
        match error {
            // What a granted name led to is not for the guest to know.
            EgressError::Refused(refusal) if refusal.address().is_some() => {
                Self::failed("denied", "EACCES", &format!("cannot connect: {}", refusal.reason))
            }
            EgressError::Refused(refusal) => Self::denied(refusal),
            EgressError::Failed { .. } if error.is_unknown_name() => {
                Self::failed("name", "EIO", "Name or service not known")
            }
            EgressError::Failed { source, .. } => Self::of_io(source),
            EgressError::Tls { source, .. } if error.is_certificate() => {
                Self::failed("certificate", "EPROTO", &source.to_string())
            }
            EgressError::Tls { source, .. } => match named(source) {
                ("EIO", _) => Self::failed("tls", "EPROTO", &source.to_string()),
                _ => Self::of_io(source),
            },
        }
    }

    /// An error of an open connection.
    pub(super) fn of_io(error: &io::Error) -> Self {
        let (errno, text) = named(error);
        Self::failed("io", errno, text)
    }

    /// The answer as the guest reads it.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        let with = |kind: u8, mut bytes: Vec<u8>| {
            bytes.insert(0, kind);
            bytes
        };
        match self {
            Self::Nothing => Vec::new(),
            Self::Done(bytes) => with(0, bytes),
            Self::Failed(bytes) => with(1, bytes),
            Self::Late => vec![2],
        }
    }
}

/// The name and the words of a system's error.
pub(super) fn named(error: &io::Error) -> (&'static str, &'static str) {
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
