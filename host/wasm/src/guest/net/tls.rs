//! The TLS parameters in the messages between a guest and the host.

use codebox_egress::{TlsFacts, TlsVersions};
use serde::{Deserialize, Serialize};

use super::reply::Reply;

/// The TLS parameters that a guest requests.
#[derive(Deserialize)]
pub(super) struct WantedTls<'a> {
    pub name: String,
    #[serde(borrow)]
    pub alpn: Vec<&'a str>,
    #[serde(default)]
    pub versions: WantedVersions,
}

/// The versions of TLS that a guest accepts.
#[derive(Clone, Copy, Default, Deserialize)]
pub(super) enum WantedVersions {
    #[default]
    #[serde(rename = "all")]
    All,
    #[serde(rename = "1.2")]
    OnlyTwo,
    #[serde(rename = "1.3")]
    OnlyThree,
}

impl From<WantedVersions> for TlsVersions {
    fn from(wanted: WantedVersions) -> Self {
        match wanted {
            WantedVersions::All => Self::All,
            WantedVersions::OnlyTwo => Self::OnlyTwo,
            WantedVersions::OnlyThree => Self::OnlyThree,
        }
    }
}

/// The negotiated TLS parameters.
#[derive(Serialize)]
pub(super) struct GotTls {
    version: &'static str,
    cipher: &'static str,
    alpn: Option<String>,
    /// The other side's certificate, in hexadecimal.
    certificate: String,
}

impl<'a> WantedTls<'a> {
    pub(super) fn read(wanted: &'a [u8]) -> Result<Self, Reply> {
        let malformed = |_| Reply::failed("tls", "EINVAL", "malformed TLS request");
        serde_json::from_slice(wanted).map_err(malformed)
    }
}

impl GotTls {
    pub(super) fn of(facts: TlsFacts) -> Self {
        let TlsFacts { version, cipher, alpn, certificate } = facts;
        Self {
            version,
            cipher,
            alpn: alpn.map(|alpn| String::from_utf8_lossy(&alpn).into_owned()),
            certificate: certificate.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    /// Encodes the parameters for the guest.
    pub(super) fn told(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}
