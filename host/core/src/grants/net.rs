use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU16;
use std::str::FromStr;

use crate::name::NameError;

/// A host that the guest may connect to, on one port or on any.
///
/// Written `example.org`, `example.org:443`, `192.0.2.1:80` or `[2001:db8::1]:443`. Names are kept in lower
/// case and without a final dot, so that one host has one spelling. A leading `*.` stands for any subdomain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetGrant {
    host: String,
    port: Option<NonZeroU16>,
}

const RULE: &str = "write HOST or HOST:PORT, with a host name, *.domain or an address ([…] for IPv6)";

impl NetGrant {
    /// Reads `HOST[:PORT]`.
    ///
    /// # Errors
    /// When the host is no name or address, or the port is no number from 1 to 65535.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let fault = |rule| NameError::new("network grant", text, rule);
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, rest) = rest.split_once(']').ok_or_else(|| fault(RULE))?;
                let address: Ipv6Addr = address.parse().map_err(|_| fault(RULE))?;
                let port = match rest {
                    "" => None,
                    _ => Some(rest.strip_prefix(':').ok_or_else(|| fault(RULE))?),
                };
                (address.to_string(), port)
            }
            None => {
                let (host, port) = match text.split_once(':') {
                    Some((host, port)) => (host, Some(port)),
                    None => (text, None),
                };
                (host_name(host).ok_or_else(|| fault(RULE))?, port)
            }
        };
        let port = match port {
            None => None,
            // `parse` alone would take "+80".
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                let port = digits.parse::<NonZeroU16>();
                Some(port.map_err(|_| fault("the port is not a number from 1 to 65535"))?)
            }
            Some(_) => return Err(fault("the port is not a number from 1 to 65535")),
        };
        Ok(Self { host, port })
    }

    /// The host name, pattern or address, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, or `None` for any.
    #[must_use]
    pub const fn port(&self) -> Option<NonZeroU16> {
        self.port
    }

    /// Whether a connection to `host` and `port` is covered.
    #[must_use]
    pub fn covers(&self, host: &str, port: u16) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let same_host = match self.host.strip_prefix("*.") {
            Some(domain) => host.strip_suffix(domain).is_some_and(|sub| sub.len() > 1 && sub.ends_with('.')),
            None => host == self.host,
        };
        same_host && self.port.is_none_or(|granted| granted.get() == port)
    }
}

fn host_name(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    if let Ok(address) = name.parse::<IpAddr>() {
        return Some(address.to_string());
    }
    let labels = name.strip_prefix("*.").unwrap_or(&name);
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // A name of digits and dots that is no address would be read as one by some resolvers (`127.1`).
    let numeric = labels
        .split('.')
        .next_back()
        .is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x"));
    (labels.len() <= 253 && labels.split('.').all(label) && !numeric).then_some(name)
}

impl fmt::Display for NetGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.host.contains(':'), self.port) {
            (false, None) => f.write_str(&self.host),
            (false, Some(port)) => write!(f, "{}:{port}", self.host),
            (true, None) => write!(f, "[{}]", self.host),
            (true, Some(port)) => write!(f, "[{}]:{port}", self.host),
        }
    }
}

impl FromStr for NetGrant {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_has_one_spelling() {
        for (text, want) in [
            ("Example.ORG.", "example.org"),
            ("example.org:443", "example.org:443"),
            ("192.0.2.1:80", "192.0.2.1:80"),
            ("[2001:DB8:0::1]:443", "[2001:db8::1]:443"),
            ("[::1]", "[::1]"),
            ("*.example.org", "*.example.org"),
        ] {
            assert_eq!(NetGrant::new(text).map(|g| g.to_string()), Ok(want.to_owned()));
        }
    }

    #[test]
    fn refuses_what_is_no_host() {
        for bad in [
            "",
            ":80",
            "a:",
            "a:0",
            "a:65536",
            "a:+80",
            "a:b",
            "a b",
            "a/b",
            "http://a",
            "a..b",
            "-a",
            "*",
            "*.",
            "a.*",
            "::1",
            "[::1",
            "[a]",
            "[::1]x",
            "127.1",
            "2130706433",
            "0x7f000001",
            "a@b",
            "a:80:90",
        ] {
            assert!(NetGrant::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn covers_whole_labels_only() {
        let any = NetGrant::new("*.example.org").expect("a pattern");
        assert!(any.covers("a.example.org.", 1));
        assert!(!any.covers("example.org", 1));
        assert!(!any.covers("evilexample.org", 1));
        let one = NetGrant::new("example.org:443").expect("a host and a port");
        assert!(one.covers("EXAMPLE.org", 443));
        assert!(!one.covers("example.org", 80));
    }
}
