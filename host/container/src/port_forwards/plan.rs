//! Port forwards that a container needs for its network grants.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU16;

use codebox_agent::port_forward::PortForward;
use codebox_core::{Job, NetGrant, NetRules};

/// Address of the proxy. It differs from `127.0.0.1`, so that every port of `127.0.0.1` is free for the job.
const PROXY: PortForward = PortForward { address: Ipv4Addr::new(127, 77, 0, 1), port: 3128 };

/// Forwarded ports of a host that is granted on any port. The host's other ports are reachable through the proxy only.
const DEFAULT_PORTS: [u16; 2] = [80, 443];

/// Most port forwards of a container, so that the agent has descriptors left for connections. Further grants are
/// reachable through the proxy only.
const MAX_PORT_FORWARDS: usize = 64;

/// Variables in which programs look for a proxy. The names in one group are one setting.
const PROXY_VARIABLES: [&[&str]; 3] =
    [&["http_proxy", "HTTP_PROXY"], &["https_proxy", "HTTPS_PROXY"], &["all_proxy", "ALL_PROXY"]];
const NO_PROXY_VARIABLES: &[&str] = &["no_proxy", "NO_PROXY"];

/// Variables in which programs look for certificate authorities, in addition to their own or instead of them.
const CA_VARIABLES: [&str; 3] = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"];

/// Variable that makes Node use the proxy variables.
const NODE_PROXY_VARIABLE: &str = "NODE_USE_ENV_PROXY";

/// Target of a port forward.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// The proxy.
    Proxy,
    /// A host and port.
    Host(String, u16),
}

/// Port forwards of a container, in the order of their indexes, and the names that lead to them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PortForwards {
    port_forwards: Vec<(PortForward, Target)>,
    names: BTreeMap<String, Ipv4Addr>,
    /// True if the program's own loopback must not be reached through the proxy.
    excludes_loopback: bool,
    /// True if the IPv6 loopback is granted.
    grants_ipv6_loopback: bool,
    /// True if a granted host can be reached through the proxy only.
    needs_proxy: bool,
}

impl PortForwards {
    /// Returns the port forwards for network grants, an empty value if there are no grants.
    pub(crate) fn of(grants: &[NetGrant]) -> Self {
        if grants.is_empty() {
            return Self::default();
        }
        let mut places: BTreeMap<&str, BTreeSet<u16>> = BTreeMap::new();
        for grant in grants {
            if let Some(name) = grant.exact_name() {
                let ports = places.entry(name).or_default();
                match grant.port() {
                    Some(port) => ports.extend([port.get()]),
                    // Only the granted ports of the machine's own loopback are forwarded.
                    None if name == LOCALHOST => {}
                    None => ports.extend(DEFAULT_PORTS),
                }
            }
        }
        let mut all = Self { port_forwards: vec![(PROXY, Target::Proxy)], ..Self::default() };
        for (number, (name, ports)) in (0_u32..).zip(places) {
            let address = match name {
                LOCALHOST => Ipv4Addr::LOCALHOST,
                _ => Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 77, 1, 1)) + number),
            };
            if all.port_forwards.len() + ports.len() > MAX_PORT_FORWARDS {
                break;
            }
            if name != LOCALHOST {
                all.names.insert(name.to_owned(), address);
            }
            let port_forward = |port| (PortForward { address, port }, Target::Host(name.to_owned(), port));
            all.port_forwards.extend(ports.into_iter().map(port_forward));
        }
        for grant in grants {
            let Some(port) = grant.port() else { continue };
            let address = Ipv4Addr::LOCALHOST;
            let port_forward = PortForward { address, port: port.get() };
            let free = all.port_forwards.iter().all(|(taken, _)| *taken != port_forward);
            // A grant of 127.0.0.1 itself is forwarded at that address.
            if free && grant.exact_address() == Some(IpAddr::V4(address)) && all.port_forwards.len() < MAX_PORT_FORWARDS
            {
                all.port_forwards.push((port_forward, Target::Host(address.to_string(), port.get())));
            }
        }
        // A granted loopback port without a port forward is reachable through the proxy only.
        let needs_proxy_for_loopback = grants.iter().any(|grant| {
            let rules = NetRules(vec![grant.clone()]);
            let port = grant.port().map_or(1, NonZeroU16::get);
            let local = [LOCALHOST, "127.0.0.1"].into_iter().any(|host| rules.name(host, port).is_ok());
            let port_forward = PortForward { address: Ipv4Addr::LOCALHOST, port };
            let has_port_forward =
                grant.port().is_some() && all.port_forwards.iter().any(|(taken, _)| *taken == port_forward);
            local && !has_port_forward
        });
        all.excludes_loopback = !needs_proxy_for_loopback;
        all.grants_ipv6_loopback = grants.iter().any(|grant| {
            let port = grant.port().map_or(1, NonZeroU16::get);
            NetRules(vec![grant.clone()]).name("::1", port).is_ok()
        });
        let local =
            |grant: &NetGrant| grant.exact_address() == Some(IpAddr::V4(Ipv4Addr::LOCALHOST)) && grant.port().is_some();
        all.needs_proxy = grants.iter().any(|grant| match grant.exact_name() {
            Some(name) => name != LOCALHOST && !all.names.contains_key(name),
            None => !local(grant),
        });
        all
    }

    pub(crate) fn is_none(&self) -> bool {
        self.port_forwards.is_empty()
    }

    /// Returns the addresses on which the agent has to listen.
    pub(crate) fn places(&self) -> Vec<PortForward> {
        self.port_forwards.iter().map(|(port_forward, _)| *port_forward).collect()
    }

    /// Returns the target of each port forward.
    pub(crate) fn targets(&self) -> Vec<Target> {
        self.port_forwards.iter().map(|(_, target)| target.clone()).collect()
    }

    /// Returns the entries for `/etc/hosts`, in the format of the engines' API.
    pub(crate) fn hosts(&self) -> Vec<String> {
        self.names.iter().map(|(name, address)| format!("{name}:{address}")).collect()
    }

    /// Returns true if a port forward has a port that usually only root may listen on.
    pub(crate) fn has_low_port(&self) -> bool {
        self.port_forwards.iter().any(|(port_forward, _)| port_forward.port < 1024)
    }

    /// Returns the variables for the proxy and for the file of certificate `ca_bundle`, except those that the job
    /// sets itself.
    pub(crate) fn environment(&self, job: &Job, ca_bundle: Option<&str>) -> Vec<(String, String)> {
        if self.is_none() {
            return Vec::new();
        }
        let PortForward { address, port } = PROXY;
        let proxy = format!("http://{address}:{port}");
        let mut settings: Vec<(&[&str], String)> = PROXY_VARIABLES.map(|names| (names, proxy.clone())).into();
        if self.excludes_loopback {
            // There are no port forwards at `::1`, so a program with that grant has to use the proxy.
            let six = if self.grants_ipv6_loopback { "" } else { ",::1" };
            settings.push((NO_PROXY_VARIABLES, format!("{LOCALHOST},127.0.0.1{six}")));
        }
        // Node 22 warns about this variable, so it is set only where necessary.
        if self.needs_proxy {
            settings.push((&[NODE_PROXY_VARIABLE], "1".to_owned()));
        }
        if let Some(file) = ca_bundle {
            settings.extend(CA_VARIABLES.chunks(1).map(|name| (name, file.to_owned())));
        }
        let free = |names: &[&str]| names.iter().all(|name| !job.env.contains_key(*name));
        let set = settings.into_iter().filter(|(names, _)| free(names));
        set.flat_map(|(names, value)| names.iter().map(move |name| ((*name).to_owned(), value.clone()))).collect()
    }
}

const LOCALHOST: &str = "localhost";

#[cfg(test)]
mod tests {
    use super::*;

    fn port_forwards(texts: &[&str]) -> PortForwards {
        let grants: Vec<NetGrant> = texts.iter().map(|text| text.parse().expect("a grant")).collect();
        PortForwards::of(&grants)
    }

    #[test]
    fn forwards_nothing_without_grants() {
        let none = port_forwards(&[]);
        assert!(none.is_none() && none.places().is_empty() && none.hosts().is_empty());
        assert_eq!(none.environment(&Job::python(""), Some("/f")), []);
    }

    #[test]
    fn assigns_address_and_ports_to_granted_names() {
        let all = port_forwards(&["b.org:5432", "a.org", "*.c.org", "10.0.0.0/8", "192.0.2.1:80", "b.org:5433"]);
        assert_eq!(all.hosts(), ["a.org:127.77.1.1", "b.org:127.77.1.2"]);
        let host = |name: &str, port| Target::Host(name.to_owned(), port);
        let want = [Target::Proxy, host("a.org", 80), host("a.org", 443), host("b.org", 5432), host("b.org", 5433)];
        assert_eq!(all.targets(), want);
        assert_eq!(all.places().len(), 5);
        assert!(all.has_low_port() && !port_forwards(&["b.org:5432", "*.c.org"]).has_low_port());
    }

    #[test]
    fn forwards_loopback_ports_under_the_same_number() {
        let all = port_forwards(&["localhost:8080", "127.0.0.1:9090", "127.0.0.1:8080"]);
        assert_eq!(all.hosts(), Vec::<String>::new());
        let local = |port| PortForward { address: Ipv4Addr::LOCALHOST, port };
        assert_eq!(all.places(), [PROXY, local(8080), local(9090)]);
        let environment = |all: &PortForwards| all.environment(&Job::python(""), None);
        assert!(environment(&all).iter().any(|(name, value)| name == "NO_PROXY" && value.ends_with(",::1")));
        let six = port_forwards(&["[::1]:8080"]);
        assert!(environment(&six).iter().any(|(name, value)| name == "NO_PROXY" && !value.contains("::1")));
        for any in ["localhost", "127.0.0.1", "127.0.0.0/8", "127.0.0.0/8:80"] {
            assert!(environment(&port_forwards(&[any])).iter().all(|(name, _)| name != "NO_PROXY"), "{any}");
        }
    }

    #[test]
    fn keeps_proxy_variables_set_by_the_job() {
        let mut job = Job::python("");
        job.env.insert("https_proxy".to_owned(), String::new());
        let set = port_forwards(&["a.org"]).environment(&job, Some("/f"));
        assert!(set.contains(&("SSL_CERT_FILE".to_owned(), "/f".to_owned())));
        assert!(set.iter().all(|(name, _)| !name.eq_ignore_ascii_case("https_proxy")));
        assert!(set.contains(&("HTTP_PROXY".to_owned(), "http://127.77.0.1:3128".to_owned())));
    }

    #[test]
    fn enables_node_proxy_only_when_needed() {
        let node_proxy = |all: PortForwards| {
            all.environment(&Job::python(""), None).iter().any(|(name, _)| name == NODE_PROXY_VARIABLE)
        };
        assert!(node_proxy(port_forwards(&["a.org", "*.b.org"])) && node_proxy(port_forwards(&["10.0.0.0/8"])));
        assert!(!node_proxy(port_forwards(&["a.org", "b.org:5432", "127.0.0.1:80"])));
    }

    #[test]
    fn limits_number_of_port_forwards() {
        let names: Vec<String> = (0..1000).map(|number| format!("h{number}.org:1")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let all = port_forwards(&names);
        assert!(all.places().len() <= MAX_PORT_FORWARDS);
        assert_eq!(all.hosts().len() + 1, all.places().len());
        let node_proxy = all.environment(&Job::python(""), None);
        assert!(
            node_proxy.iter().any(|(name, _)| name == NODE_PROXY_VARIABLE),
            "hosts without a forward are reached through the proxy"
        );
    }
}
