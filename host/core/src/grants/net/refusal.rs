use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::AddressKind;
use crate::limits::LimitKind;

/// Reason that a connection was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RefusalReason {
    /// A host and port that no grant covers.
    NotGranted,
    /// A host that is neither a name nor an address, or that has more than one possible meaning.
    InvalidHost,
    /// A host that resolves to an address of this kind, which has to be granted itself.
    Address(AddressKind),
    /// A network limit that was reached.
    Limit(LimitKind),
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotGranted => f.write_str("it is not granted"),
            Self::InvalidHost => f.write_str("not a host name or an address"),
            Self::Address(kind) => write!(f, "it is {kind}, which must be granted explicitly"),
            Self::Limit(LimitKind::NetConnections) => f.write_str("the limit on connections is reached"),
            Self::Limit(_) => f.write_str("the limit on network traffic is reached"),
        }
    }
}

/// Refused connection, with the reason and the option that would allow it.
///
/// The `Display` text may contain the address that a name resolved to, so it is meant for the user who started the job.
/// The guest receives only the [reason](Self::reason) for such a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Reason of the refusal.
    pub reason: RefusalReason,
    host: String,
    port: u16,
    address: Option<IpAddr>,
}

impl Refusal {
    /// Creates a refusal of `host` and `port`, or of an address that the host resolved to.
    #[must_use]
    pub fn new(reason: RefusalReason, host: &str, port: u16, address: Option<IpAddr>) -> Self {
        Self { reason, host: shorten_host(host), port, address }
    }

    /// Returns the address that the host resolved to, if it was looked up.
    #[must_use]
    pub const fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Returns the command-line option that would allow the connection, or `None` if it cannot be granted.
    #[must_use]
    pub fn fix(&self) -> Option<String> {
        let Self { reason, host, port, address } = self;
        match reason {
            RefusalReason::InvalidHost => None,
            // No grant can name port 0.
            RefusalReason::NotGranted | RefusalReason::Address(_) if *port == 0 => None,
            RefusalReason::NotGranted | RefusalReason::Address(_) => {
                let host = address.map_or_else(|| host.clone(), |address| address.to_string());
                Some(format!("add --net {}", authority(&host, *port)))
            }
            RefusalReason::Limit(LimitKind::NetConnections) => Some("raise --max-net-connections".to_owned()),
            RefusalReason::Limit(_) => Some("raise --max-net-bytes".to_owned()),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reason, host, port, address } = self;
        write!(f, "cannot connect to {}: ", authority(host, *port))?;
        match (reason, address) {
            (RefusalReason::Address(kind), Some(address)) if address.to_string() != *host => {
                write!(f, "it resolves to {address}, {kind}, which must be granted explicitly")?;
            }
            _ => write!(f, "{reason}")?,
        }
        match self.fix() {
            Some(fix) => write!(f, "; {fix}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}

/// Formats `host:port`, with brackets around an IPv6 address.
pub(crate) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Shortens a host for reports and removes its brackets, because the guest may write any text of any length.
pub(crate) fn shorten_host(host: &str) -> String {
    const MAX_LEN: usize = 255;
    let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let (kept, rest) = host.split_at(host.floor_char_boundary(MAX_LEN));
    if rest.is_empty() { kept.to_owned() } else { format!("{kept}…") }
}
