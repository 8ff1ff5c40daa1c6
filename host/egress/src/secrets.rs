//! Secrets that the host puts into requests in place of their placeholders.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codebox_core::{SecretGrant, SecretName};
use thiserror::Error;

mod mask;
mod request;

pub use mask::Mask;
pub use request::RequestRewriter;

/// The secrets of one guest. Clones share them.
#[derive(Clone, Default)]
pub struct Secrets(Arc<[Secret]>);

#[derive(Clone)]
struct Secret {
    grant: SecretGrant,
    placeholder: String,
    value: String,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|secret| secret.grant.name.as_str())).finish()
    }
}

/// Security of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TLS, with a verified certificate.
    Tls,
    /// No encryption.
    Plain,
}

/// Reason that a request with a placeholder is not sent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SecretError {
    /// The connection is not encrypted.
    #[error("the secret {0} is sent over TLS only: use https")]
    Plain(SecretName),
    /// The request is for a host other than the one the connection leads to.
    #[error("the secret {0} is not sent: the request is for another host than the connection")]
    OtherHost(SecretName),
    /// The head of the request can be understood in more than one way.
    #[error("the secret {0} is not sent: {1}")]
    Malformed(SecretName, &'static str),
}

impl Secrets {
    /// Creates the set of the granted secrets that have a value.
    #[must_use]
    pub fn new(grants: &[SecretGrant]) -> Self {
        let secret = |grant: &SecretGrant| {
            let value = grant.value.as_ref()?.as_str().to_owned();
            Some(Secret { placeholder: grant.placeholder(), value, grant: grant.clone() })
        };
        Self(grants.iter().filter_map(secret).collect())
    }

    /// Returns true if there is no secret.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the secrets that `host` may receive. Over a connection without encryption, only this machine receives them.
    #[must_use]
    pub fn for_host(&self, host: &str, transport: Transport) -> Option<HostSecrets> {
        let list: Arc<[Secret]> = self.0.iter().filter(|secret| secret.grant.is_for(host)).cloned().collect();
        let is_secure = transport == Transport::Tls || is_this_machine(host);
        (!list.is_empty()).then(|| HostSecrets { host: canonical(host), is_secure, list })
    }

    /// Returns a mask of all values.
    #[must_use]
    pub fn mask(&self) -> Mask {
        Mask::new(self.0.iter().map(|secret| secret.value.as_str()))
    }
}

/// The secrets that one host may receive.
#[derive(Clone)]
pub struct HostSecrets {
    host: String,
    is_secure: bool,
    list: Arc<[Secret]>,
}

impl fmt::Debug for HostSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostSecrets").field("host", &self.host).finish_non_exhaustive()
    }
}

impl HostSecrets {
    /// Returns the value of a header with the values of secrets in place of their placeholders, and the name of a secret in it;
    /// `None` if it has no placeholder.
    ///
    /// Credentials of the scheme `Basic` are decoded first.
    ///
    /// # Errors
    /// Returns an error if the header has a placeholder and the connection is not encrypted.
    pub fn replace(&self, value: &[u8]) -> Result<Option<(Vec<u8>, SecretName)>, SecretError> {
        let in_credentials = || {
            let (scheme, credentials) = basic_credentials(value)?;
            let (text, name) = self.replace_in(&credentials)?;
            Some(([scheme, STANDARD.encode(text).as_bytes()].concat(), name))
        };
        match self.replace_in(value).or_else(in_credentials) {
            Some((_, name)) if !self.is_secure => Err(SecretError::Plain(name)),
            replaced => Ok(replaced),
        }
    }

    /// Returns a mask of these values.
    #[must_use]
    pub fn mask(&self) -> Mask {
        Mask::new(self.list.iter().map(|secret| secret.value.as_str()))
    }

    /// Returns the text with values, and the name of a secret in it.
    fn replace_in(&self, text: &[u8]) -> Option<(Vec<u8>, SecretName)> {
        let mut replaced = None;
        for secret in self.list.iter() {
            let current = replaced.as_ref().map_or(text, |(text, _): &(Vec<u8>, SecretName)| text);
            if let Some(text) = replace_all(current, secret.placeholder.as_bytes(), secret.value.as_bytes()) {
                replaced = Some((text, secret.grant.name.clone()));
            }
        }
        replaced
    }

    /// Returns the name of a secret whose placeholder is in a text.
    fn find(&self, text: &[u8]) -> Option<SecretName> {
        self.replace_in(text).map(|(_, name)| name)
    }
}

/// Replaces all occurrences of `from`, or returns `None` if there is none. What was put in is not searched again.
fn replace_all(text: &[u8], from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    let mut replaced = Vec::new();
    let mut rest = text;
    while let Some(at) = memchr::memmem::find(rest, from) {
        replaced.extend_from_slice(&rest[..at]);
        replaced.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    if rest.len() == text.len() {
        return None;
    }
    replaced.extend_from_slice(rest);
    Some(replaced)
}

/// Splits `Basic CREDENTIALS` into the scheme with its spaces and the decoded credentials.
fn basic_credentials(value: &[u8]) -> Option<(&[u8], Vec<u8>)> {
    const SCHEME: &[u8] = b"basic ";
    let (scheme, _) = value.split_at_checked(SCHEME.len()).filter(|(s, _)| s.eq_ignore_ascii_case(SCHEME))?;
    let spaces = value[scheme.len()..].iter().take_while(|byte| **byte == b' ').count();
    let (scheme, encoded) = value.split_at(scheme.len() + spaces);
    Some((scheme, STANDARD.decode(encoded.trim_ascii_end()).ok()?))
}

/// Returns a host in the spelling that hosts are compared in.
fn canonical(host: &str) -> String {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    bare.strip_suffix('.').unwrap_or(bare).to_ascii_lowercase()
}

/// Returns true if a host is this machine, whose connections do not leave it.
fn is_this_machine(host: &str) -> bool {
    let host = canonical(host);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests;
