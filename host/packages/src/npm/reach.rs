//! Where a registry may send us.

use std::net::{IpAddr, Ipv4Addr};

use tokio::net::lookup_host;
use url::{Host, Url};

/// Whether `to`, which a registry led to, may be asked for: by a redirect, or as the address of an archive.
///
/// What is at the registry's own host may. Elsewhere nothing may be that is near rather than far (loopback, link-local,
/// private, metadata), by address or by a name that leads there, and what was asked for in secret stays so.
///
/// # Errors
/// Why not.
pub(super) async fn may_follow(registry: &Url, to: &Url) -> Result<(), &'static str> {
    let same = registry.host_str() == to.host_str();
    match to.scheme() {
        "https" => {}
        "http" if registry.scheme() == "http" => {}
        "http" => return Err("it gives up encryption"),
        _ => return Err("it is no address of the web"),
    }
    if same {
        return Ok(());
    }
    match to.host() {
        Some(Host::Ipv4(address)) => far(address.into()),
        Some(Host::Ipv6(address)) => far(address.into()),
        Some(Host::Domain(name)) => {
            let port = to.port_or_known_default().unwrap_or(443);
            // A name that is known to a proxy alone cannot be looked up here, and leads nowhere here.
            let Ok(found) = lookup_host((name, port)).await else { return Ok(()) };
            found.map(|address| address.ip()).try_for_each(far)
        }
        None => Err("it names no host"),
    }
}

fn far(address: IpAddr) -> Result<(), &'static str> {
    let near = match address {
        IpAddr::V4(address) => is_near(address),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(address) => is_near(address),
            None => {
                address.is_loopback()
                    || address.is_unspecified()
                    || address.is_multicast()
                    || address.is_unique_local()
                    || address.is_unicast_link_local()
                    || wrapped(address.segments()).is_some_and(is_near)
            }
        },
    };
    if near { Err("it is an address of this machine or network") } else { Ok(()) }
}

fn is_near(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_unspecified()
        || address.is_broadcast()
        || address.is_multicast()
        || a == 0
        || (a == 100 && (64..128).contains(&b))
}

/// The address of version 4 in one of NAT64's or 6to4's.
fn wrapped(segments: [u16; 8]) -> Option<Ipv4Addr> {
    let [a, b, c, .., y, z] = segments;
    let of = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match (a, b) {
        (0x64, 0xff9b) => Some(of(y, z)),
        (0x2002, _) => Some(of(b, c)),
        (0, 0) => Some(of(y, z)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follows(registry: &str, to: &str) -> bool {
        let (registry, to) = (registry.parse().expect("an address"), to.parse().expect("an address"));
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an executor");
        executor.block_on(may_follow(&registry, &to)).is_ok()
    }

    #[test]
    fn nothing_near_is_followed_from_far() {
        let registry = "http://192.0.2.1/";
        for to in [
            "http://169.254.169.254/latest",
            "http://127.0.0.1/",
            "http://10.1.2.3/",
            "http://192.168.0.1/",
            "http://100.64.0.1/",
            "http://[::1]/",
            "http://[fe80::1]/",
            "http://[fd00::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://0.0.0.0/",
            "http://[64:ff9b::7f00:1]/",
            "http://[2002:7f00:1::]/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://localhost/",
            "file:///etc/passwd",
            "ftp://192.0.2.2/",
        ] {
            assert!(!follows(registry, to), "{to}");
        }
        for to in ["http://192.0.2.2/a", "https://198.51.100.1/", "http://[2001:db8::1]/"] {
            assert!(follows(registry, to), "{to}");
        }
    }

    #[test]
    fn a_registry_leads_to_its_own_host_and_never_out_of_encryption() {
        assert!(follows("http://127.0.0.1:1/", "http://127.0.0.1:2/a"));
        assert!(!follows("http://127.0.0.1:1/", "http://127.0.0.2:1/a"));
        assert!(!follows("https://192.0.2.1/", "http://192.0.2.1/a"));
    }
}
