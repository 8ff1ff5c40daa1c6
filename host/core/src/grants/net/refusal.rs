use std::fmt;
use std::net::IpAddr;

use super::AddressKind;
use crate::limits::LimitKind;

/// Why a connection was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefusalReason {
    /// No grant names the host and port.
    NotGranted,
    /// The host is no name and no address, or it can be read as more than one.
    BadHost,
    /// The host leads to an address that has to be granted by itself.
    Address(AddressKind),
    /// A limit on the network was reached.
    Limit(LimitKind),
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotGranted => f.write_str("it is not granted"),
            Self::BadHost => f.write_str("it is no host name and no address"),
            Self::Address(kind) => write!(f, "it is {kind}, which has to be granted by itself"),
            Self::Limit(LimitKind::NetConnections) => f.write_str("the limit on connections is reached"),
            Self::Limit(_) => f.write_str("the limit on network traffic is reached"),
        }
    }
}

/// A connection that was refused: which one, why, and what would allow it.
///
/// What it shows names the address that a name led to, so it is for whoever started the job; a guest is told the
/// [reason](Self::reason).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: RefusalReason,
    host: String,
    port: u16,
    address: Option<IpAddr>,
}

impl Refusal {
    /// A refusal of `host` and `port`, or of an address that the host led to.
    #[must_use]
    pub fn new(reason: RefusalReason, host: &str, port: u16, address: Option<IpAddr>) -> Self {
        Self { reason, host: shortened(host), port, address }
    }

    /// The address that the host led to, if that was looked up.
    #[must_use]
    pub const fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// What would allow it, as a user would write it; nothing for what cannot be granted.
    #[must_use]
    pub fn fix(&self) -> Option<String> {
        let Self { reason, host, port, address } = self;
        match reason {
            RefusalReason::BadHost => None,
            // No grant names that port.
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
                write!(f, "it leads to {address}, {kind}, which has to be granted by itself")?;
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

/// `host:port`, with brackets where the host is an IPv6 address.
pub(crate) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// What is kept of a host's name in reports: it may be anything of any length.
pub(crate) fn shortened(host: &str) -> String {
    const MOST: usize = 255;
    let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let (kept, rest) = host.split_at(host.floor_char_boundary(MOST));
    if rest.is_empty() { kept.to_owned() } else { format!("{kept}…") }
}
