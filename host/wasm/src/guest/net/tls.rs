//! What a guest and its host tell each other of TLS.

use codebox_egress::TlsFacts;
use serde::{Deserialize, Serialize};

use super::reply::Reply;

/// The TLS that a guest wants.
#[derive(Deserialize)]
pub(super) struct WantedTls<'a> {
    pub name: String,
    #[serde(borrow)]
    pub alpn: Vec<&'a str>,
}

/// The TLS that it got.
#[derive(Serialize)]
pub(super) struct GotTls {
    version: &'static str,
    cipher: &'static str,
    alpn: Option<String>,
    /// The other side's certificate, in hexadecimal digits.
    certificate: String,
}

impl<'a> WantedTls<'a> {
    pub(super) fn read(wanted: &'a [u8]) -> Result<Self, Reply> {
        let malformed = |_| Reply::failed("tls", "EINVAL", "the request for TLS is malformed");
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

    /// As the guest reads it.
    pub(super) fn told(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}
