//! Restrictions on the addresses that a registry or an index may refer to.

use std::net::IpAddr;

use async_trait::async_trait;
use codebox_core::AddressKind;
use http::Extensions;
use reqwest_middleware::reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next};
use tokio::net::lookup_host;
use url::{Host, Url};
use uv_client::WrappedReqwestError;
use uv_distribution_types::IndexUrl;

/// Checks that a request may be sent to `to`, which a registry gave as a redirect or as the URL of an archive.
///
/// The registry's own host is allowed. Any other host must not be on this machine or network (loopback, link-local,
/// private, metadata), by its address or by the addresses that its name resolves to. An https registry must not lead to
/// plain http.
///
/// # Errors
/// The reason why the address is refused.
pub(crate) async fn check_target(registry: &Url, to: &Url) -> Result<(), &'static str> {
    let same = registry.host_str() == to.host_str();
    match to.scheme() {
        "https" => {}
        "http" if registry.scheme() == "http" => {}
        "http" => return Err("it downgrades https to http"),
        _ => return Err("not an http or https URL"),
    }
    if same {
        return Ok(());
    }
    match proximity_of_url(to).await? {
        None => Ok(()),
        Some(_) => Err(NEARBY_ADDRESS),
    }
}

/// Reason for refusing a nearby address.
const NEARBY_ADDRESS: &str = "it is an address of this machine or its network";

/// Proximity of a nearby address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proximity {
    /// This machine.
    Loopback,
    /// A private network of the user.
    Private,
    /// An address that is only meaningful to one machine or link, including cloud metadata services.
    Link,
}

/// Returns the proximity of the first nearby address that a URL leads to, or `None` if all of its addresses are remote.
async fn proximity_of_url(to: &Url) -> Result<Option<Proximity>, &'static str> {
    match to.host() {
        Some(Host::Ipv4(address)) => Ok(proximity(address.into())),
        Some(Host::Ipv6(address)) => Ok(proximity(address.into())),
        Some(Host::Domain(name)) => {
            let port = to.port_or_known_default().unwrap_or(443);
            // A name that only a proxy can resolve does not lead to a nearby address.
            let Ok(found) = lookup_host((name, port)).await else { return Ok(None) };
            Ok(found.filter_map(|address| proximity(address.ip())).next())
        }
        None => Err("it has no host"),
    }
}

/// Error for an address from an index, as a redirect or as the URL of a file, that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the package index refers to {host}, which is not allowed: {reason}")]
pub(crate) struct ForbiddenAddress {
    pub(crate) host: String,
    pub(crate) reason: &'static str,
}

/// Checks that an index may list a file at this URL: only a local index may list local files.
pub(crate) fn check_file_url(index: &IndexUrl, file: &Url) -> Result<(), ForbiddenAddress> {
    match file.scheme() == "file" && index.url().scheme() != "file" {
        true => Err(ForbiddenAddress { host: file.to_string(), reason: "it is a local file" }),
        false => Ok(()),
    }
}

/// Returns the error of a middleware that refused a request or a response, such as [`ForbiddenAddress`], if it is among the
/// causes.
pub(crate) fn find_middleware_error<T: std::error::Error + Clone + Send + Sync + 'static>(
    error: &(dyn std::error::Error + 'static),
) -> Option<T> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        // These two types display a middleware's error without listing it among their sources.
        let of_client = error.downcast_ref::<WrappedReqwestError>().map(|wrapped| &**wrapped);
        let of_guard = match of_client.or_else(|| error.downcast_ref::<Error>()) {
            Some(Error::Middleware(guard)) => guard.chain().find_map(|error| error.downcast_ref::<T>()),
            _ => None,
        };
        if let Some(refusal) = of_guard.or_else(|| error.downcast_ref::<T>()) {
            return Some(refusal.clone());
        }
        cause = error.source();
    }
    None
}

/// Middleware that allows requests to the hosts that the user configured, and to hosts that are no nearer than those.
/// It checks each request anew, including redirects.
pub(crate) struct AddressGuard {
    /// URLs of the user's indexes.
    pub(crate) own: Vec<Url>,
}

impl AddressGuard {
    async fn check_request(&self, url: &Url) -> Result<(), &'static str> {
        if self.own.iter().any(|own| own.host_str() == url.host_str()) {
            return Ok(());
        }
        let Some(proximity) = proximity_of_url(url).await? else { return Ok(()) };
        // An index in a private network may serve its files from another machine there.
        for own in self.own.iter().filter(|_| proximity != Proximity::Link) {
            if proximity_of_url(own).await == Ok(Some(proximity)) {
                return Ok(());
            }
        }
        Err(NEARBY_ADDRESS)
    }
}

#[async_trait]
impl Middleware for AddressGuard {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response, Error> {
        if let Err(reason) = self.check_request(request.url()).await {
            let host = request.url().host_str().unwrap_or_default().to_owned();
            return Err(Error::middleware(ForbiddenAddress { host, reason }));
        }
        next.run(request, extensions).await
    }
}

fn proximity(address: IpAddr) -> Option<Proximity> {
    match AddressKind::of(address)? {
        AddressKind::Loopback | AddressKind::ThisMachine => Some(Proximity::Loopback),
        AddressKind::Private | AddressKind::Shared => Some(Proximity::Private),
        // An address that embeds another one: indexes do not have such addresses.
        AddressKind::EmbeddedIpv4
        | AddressKind::LinkLocal
        | AddressKind::Multicast
        | AddressKind::Unspecified
        | AddressKind::Metadata => Some(Proximity::Link),
        // Unassigned addresses do not belong to a nearby host.
        AddressKind::Reserved => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_request(own: &str, to: &str) -> bool {
        let to = to.parse().expect("an address");
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an executor");
        let guard = AddressGuard { own: vec![own.parse().expect("an address")] };
        executor.block_on(guard.check_request(&to)).is_ok()
    }

    #[test]
    fn restricts_index_to_its_own_network() {
        for (own, to, may) in [
            ("http://192.0.2.1/simple", "http://192.0.2.1:81/x", true),
            ("http://192.0.2.1/simple", "https://198.51.100.7/x", true),
            ("http://192.0.2.1/simple", "http://127.0.0.1/x", false),
            ("http://192.0.2.1/simple", "http://10.0.0.1/x", false),
            ("http://192.0.2.1/simple", "http://169.254.169.254/x", false),
            ("http://10.0.0.1/simple", "http://10.0.0.2/x", true),
            ("http://10.0.0.1/simple", "http://127.0.0.1/x", false),
            ("http://10.0.0.1/simple", "http://169.254.169.254/x", false),
            ("http://10.0.0.1/simple", "http://[fd00:ec2::254]/x", false),
            ("http://127.0.0.1:1/simple", "http://127.0.0.2:2/x", true),
            ("http://127.0.0.1:1/simple", "http://[::ffff:169.254.169.254]/x", false),
            ("http://127.0.0.1:1/simple", "http://100.100.100.200/x", false),
            ("http://192.0.2.1/simple", "http://168.63.129.16/x", false),
            ("http://127.0.0.1:1/simple", "http://192.168.1.1/x", false),
        ] {
            assert_eq!(check_request(own, to), may, "{own} {to}");
        }
    }

    fn accepts_target(registry: &str, to: &str) -> bool {
        let (registry, to) = (registry.parse().expect("an address"), to.parse().expect("an address"));
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an executor");
        executor.block_on(check_target(&registry, &to)).is_ok()
    }

    #[test]
    fn rejects_nearby_targets_of_remote_registry() {
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
            assert!(!accepts_target(registry, to), "{to}");
        }
        for to in ["http://192.0.2.2/a", "https://198.51.100.1/", "http://[2001:db8::1]/"] {
            assert!(accepts_target(registry, to), "{to}");
        }
    }

    #[test]
    fn accepts_same_host_and_rejects_downgrade_to_http() {
        assert!(accepts_target("http://127.0.0.1:1/", "http://127.0.0.1:2/a"));
        assert!(!accepts_target("http://127.0.0.1:1/", "http://127.0.0.2:1/a"));
        assert!(!accepts_target("https://192.0.2.1/", "http://192.0.2.1/a"));
    }
}
