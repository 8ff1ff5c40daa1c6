//! Secrets on one connection of a guest.

use codebox_egress::{HostSecrets, Mask, RequestRewriter, SecretError};

use super::reply::Reply;

/// The secrets of the other side of a connection: put into the guest's requests, and masked in the answers.
pub(super) struct SecretFilter {
    pub requests: RequestRewriter,
    pub answers: Mask,
}

impl SecretFilter {
    pub(super) fn new(secrets: HostSecrets) -> Self {
        let answers = secrets.mask();
        Self { requests: RequestRewriter::new(secrets), answers }
    }
}

/// Returns the protocols without HTTP/2, in whose requests placeholders are not replaced.
pub(super) fn without_http2(mut alpn: Vec<&str>) -> Vec<&str> {
    alpn.retain(|protocol| *protocol != "h2");
    alpn
}

impl Reply {
    /// Creates the reply to a request that a secret must not be sent with.
    pub(super) fn from_secret(error: &SecretError) -> Self {
        Self::failed("denied", "EACCES", &error.to_string())
    }
}
