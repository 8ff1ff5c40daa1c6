//! Network grants: the hosts that a job may reach, and the only check of connections against them.
//!
//! [`NetRules::name`] checks a name before it is resolved, so that a name that is not granted is never looked up.
//! [`NetRules::address`] checks the resolved address, so that a granted name gives no access to an address that only
//! this machine or its network can reach.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU16;
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::name::NameError;
use crate::text_form::serialize_as_text;

mod refusal;
mod rules;
mod special;

pub use refusal::{Refusal, RefusalReason};
pub(crate) use refusal::{authority, shorten_host};
pub use rules::NetRules;
pub use special::AddressKind;

/// Host that the guest may connect to, on one port or on any.
///
/// The syntax is `example.org`, `example.org:443`, `192.0.2.1:80`, `[2001:db8::1]:443`, or a range of addresses such as
/// `10.0.0.0/8` and `[fd00::/8]:443`. Names are stored in lower case and without a final dot, so that each host has one
/// spelling. A leading `*.` matches subdomains at any depth, but not the domain itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetGrant {
    host: NetHost,
    port: Option<NonZeroU16>,
}

/// Host part of a grant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum NetHost {
    /// A single name.
    Name(String),
    /// All subdomains of this name.
    Subdomains(String),
    /// A single address.
    Address(IpAddr),
    /// A range of more than one address.
    Range(IpNet),
}

const RULE: &str =
    "write HOST or HOST:PORT, with a host name, *.domain, an address or a range such as 10.0.0.0/8 ([…] for IPv6)";
const RANGE: &str =
    "a range must start at its first address and have a whole number of prefix bits, such as 10.0.0.0/8";
const ADDRESS: &str = "write HOST or HOST:PORT: no scheme, no path, such as a.org:8443";
const PORT: &str = "the port is not a number from 1 to 65535";

impl NetGrant {
    /// Parses `HOST[:PORT]`.
    ///
    /// # Errors
    /// Returns an error if the host is not a name, address or range, or if the port is not a number from 1 to 65535.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let fault = |rule| NameError::new("network grant", text, rule);
        if text.contains("://") {
            return Err(fault(ADDRESS));
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (inside, rest) = rest.split_once(']').ok_or_else(|| fault(RULE))?;
                let port = match rest {
                    "" => None,
                    _ => Some(rest.strip_prefix(':').ok_or_else(|| fault(RULE))?),
                };
                (parse_bracketed(inside).map_err(fault)?, port)
            }
            None => {
                let (host, port) = match text.split_once(':') {
                    Some((host, port)) => (host, Some(port)),
                    None => (text, None),
                };
                (parse_unbracketed(host).map_err(fault)?, port)
            }
        };
        let port = match port {
            None => None,
            // `parse` alone would accept "+80".
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                Some(digits.parse::<NonZeroU16>().map_err(|_| fault(PORT))?)
            }
            Some(_) => return Err(fault(PORT)),
        };
        Ok(Self { host, port })
    }

    /// Returns the granted name, if the host is a name and not a pattern.
    #[must_use]
    pub fn exact_name(&self) -> Option<&str> {
        match &self.host {
            NetHost::Name(name) => Some(name),
            NetHost::Subdomains(_) | NetHost::Address(_) | NetHost::Range(_) => None,
        }
    }

    /// Returns the granted address, if the host is a single address.
    #[must_use]
    pub fn exact_address(&self) -> Option<IpAddr> {
        match &self.host {
            NetHost::Address(address) => Some(*address),
            NetHost::Name(_) | NetHost::Subdomains(_) | NetHost::Range(_) => None,
        }
    }

    /// Returns the port, or `None` for any port.
    #[must_use]
    pub const fn port(&self) -> Option<NonZeroU16> {
        self.port
    }

    /// Returns the grant of the same host on any port.
    #[must_use]
    pub fn without_port(&self) -> Self {
        Self { port: None, ..self.clone() }
    }

    /// Returns true if `other` allows everything that this grant allows.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        let port = other.port.is_none() || other.port == self.port;
        let host = match (&self.host, &other.host) {
            (NetHost::Name(name), _) => other.allows_name(name),
            (NetHost::Subdomains(domain), NetHost::Subdomains(wider)) => domain == wider || is_subdomain(domain, wider),
            (NetHost::Address(address), _) => other.allows_address(*address),
            (NetHost::Range(range), NetHost::Range(wider)) => {
                // A range inside a special block, such as a private one, allows special addresses. A wider range that
                // exceeds the block does not allow them.
                let same_block = special::enclosing_block(range).is_none_or(|block| block.contains(wider));
                same_block && wider.contains(range)
            }
            (NetHost::Subdomains(_) | NetHost::Range(_), _) => false,
        };
        port && host
    }

    const fn allows_port(&self, port: u16) -> bool {
        match self.port {
            None => port != 0,
            Some(granted) => granted.get() == port,
        }
    }

    /// Returns true if `name`, in its canonical spelling, is granted.
    fn allows_name(&self, name: &str) -> bool {
        match &self.host {
            NetHost::Name(granted) => granted == name,
            NetHost::Subdomains(domain) => is_subdomain(name, domain),
            NetHost::Address(_) | NetHost::Range(_) => false,
        }
    }

    /// Returns true if `address` is granted as an address or as part of a range.
    fn allows_address(&self, address: IpAddr) -> bool {
        match &self.host {
            NetHost::Name(_) | NetHost::Subdomains(_) => false,
            NetHost::Address(granted) => *granted == address,
            NetHost::Range(range) => {
                range.contains(&address) && special::of(address).is_none_or(|special| special.is_allowed_by(range))
            }
        }
    }
}

fn parse_bracketed(text: &str) -> Result<NetHost, &'static str> {
    if text.contains('/') {
        return range(IpNet::V6(text.parse::<Ipv6Net>().map_err(|_| RULE)?));
    }
    Ok(NetHost::Address(IpAddr::V6(text.parse::<Ipv6Addr>().map_err(|_| RULE)?)))
}

fn parse_unbracketed(text: &str) -> Result<NetHost, &'static str> {
    if text.contains('/') {
        return range(IpNet::V4(text.parse::<Ipv4Net>().map_err(|_| RULE)?));
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(NetHost::Address(address));
    }
    match text.strip_prefix("*.") {
        Some(domain) => host_name(domain).map(NetHost::Subdomains),
        None => host_name(text).map(NetHost::Name),
    }
    .ok_or(RULE)
}

fn range(range: IpNet) -> Result<NetHost, &'static str> {
    if range.trunc() != range {
        return Err(RANGE);
    }
    let single = range.prefix_len() == range.max_prefix_len();
    Ok(if single { NetHost::Address(range.addr()) } else { NetHost::Range(range) })
}

/// Returns the canonical spelling of a host name, or `None` if it is invalid or could be parsed as an address.
fn host_name(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // Some resolvers read a name that ends in a number as an address: `127.1`, `2130706433`, `0x7f.1`, `017700000001`.
    let last = name.rsplit('.').next().unwrap_or_default();
    let numeric = last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x");
    (name.len() <= 253 && name.split('.').all(label) && !numeric).then_some(name)
}

/// Returns true if `name` is a subdomain of `domain`, with at least one more whole label.
fn is_subdomain(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|sub| sub.len() > 1 && sub.ends_with('.'))
}

impl fmt::Display for NetGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            NetHost::Name(name) => f.write_str(name)?,
            NetHost::Subdomains(domain) => write!(f, "*.{domain}")?,
            NetHost::Address(IpAddr::V4(address)) => write!(f, "{address}")?,
            NetHost::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
            NetHost::Range(IpNet::V4(range)) => write!(f, "{range}")?,
            NetHost::Range(IpNet::V6(range)) => write!(f, "[{range}]")?,
        }
        match self.port {
            None => Ok(()),
            Some(port) => write!(f, ":{port}"),
        }
    }
}

serialize_as_text!(NetGrant);

impl FromStr for NetGrant {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests;
