//! The TLS parameters in the messages between a guest and the host.

use codebox_egress::{TlsFacts, TlsVersions};
use serde::{Deserialize, Serialize};

use super::reply::Reply;

/// The TLS parameters that a guest requests.
#[derive(Deserialize)]
pub(super) struct TlsRequest<'a> {
    pub name: String,
    #[serde(borrow)]
    pub alpn: Vec<&'a str>,
    #[serde(default)]
    pub versions: RequestedVersions,
}

/// The versions of TLS that a guest accepts.
#[derive(Clone, Copy, Default, Deserialize)]
pub(super) enum RequestedVersions {
    #[default]
    #[serde(rename = "all")]
    All,
    #[serde(rename = "1.2")]
    OnlyTls12,
    #[serde(rename = "1.3")]
    OnlyTls13,
}

impl From<RequestedVersions> for TlsVersions {
    fn from(requested: RequestedVersions) -> Self {
        match requested {
            RequestedVersions::All => Self::All,
            RequestedVersions::OnlyTls12 => Self::OnlyTls12,
            RequestedVersions::OnlyTls13 => Self::OnlyTls13,
        }
    }
}

/// The negotiated TLS parameters.
#[derive(Serialize)]
pub(super) struct NegotiatedTls {
    version: &'static str,
    cipher: &'static str,
    alpn: Option<String>,
    /// The other side's certificate, in hexadecimal.
    certificate: String,
}

impl<'a> TlsRequest<'a> {
    pub(super) fn decode(requested: &'a [u8]) -> Result<Self, Reply> {
        let malformed = |_| Reply::failed("tls", "EINVAL", "malformed TLS request");
        serde_json::from_slice(requested).map_err(malformed)
    }
}

impl NegotiatedTls {
    pub(super) fn from_facts(facts: TlsFacts) -> Self {
        let TlsFacts { version, cipher, alpn, certificate } = facts;
        Self {
            version,
            cipher,
            alpn: alpn.map(|alpn| String::from_utf8_lossy(&alpn).into_owned()),
            certificate: certificate.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    /// Encodes the parameters for the guest.
    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}
