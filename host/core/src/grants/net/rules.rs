use std::net::IpAddr;

use super::{AddressKind, NetGrant, Refusal, RefusalReason, host_name, special};

/// Network grants of one job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetRules(pub Vec<NetGrant>);

impl NetRules {
    /// Checks a host as the guest wrote it, before it is resolved; a literal address is checked as an address.
    ///
    /// # Errors
    /// Returns the refusal if the host is invalid or no grant covers it.
    pub fn name(&self, host: &str, port: u16) -> Result<(), Refusal> {
        let refused = |reason| Refusal::new(reason, host, port, None);
        if let Some(address) = literal(host) {
            return self.literal(address, port).map_err(refused);
        }
        let name = host_name(host).ok_or_else(|| refused(RefusalReason::InvalidHost))?;
        match self.0.iter().any(|grant| grant.allows_port(port) && grant.allows_name(&name)) {
            true => Ok(()),
            false => Err(refused(RefusalReason::NotGranted)),
        }
    }

    /// Checks a host that is named without a connection and therefore without a port; a grant on any port suffices.
    ///
    /// # Errors
    /// Returns the refusal of [`name`](Self::name) for port 443 if no grant covers the host on any port.
    pub fn check_any_port(&self, host: &str) -> Result<(), Refusal> {
        self.name(host, 443).or_else(|refusal| {
            let ports = self.0.iter().filter_map(NetGrant::port);
            let mut others = ports.map(|port| self.name(host, port.get()));
            if others.any(|result| result.is_ok()) { Ok(()) } else { Err(refusal) }
        })
    }

    /// Checks an address that `host` resolved to, after the check of [`name`](Self::name).
    ///
    /// An address outside the public internet has to be granted itself, or in a range that lies wholly within the
    /// special block of the address. A cloud's metadata address has to be granted itself. A grant of the name
    /// `localhost` allows loopback addresses.
    ///
    /// # Errors
    /// Returns the refusal if [`name`](Self::name) refuses the host or no grant covers the address.
    pub fn address(&self, host: &str, address: IpAddr, port: u16) -> Result<(), Refusal> {
        self.name(host, port)?;
        let refused = |reason| Refusal::new(reason, host, port, Some(address));
        if let Some(named) = literal(host) {
            return if named == address { Ok(()) } else { Err(refused(RefusalReason::NotGranted)) };
        }
        let Some(special) = special::of(address) else { return Ok(()) };
        let is_localhost = special.kind == AddressKind::Loopback && host_name(host).as_deref() == Some("localhost");
        match is_localhost || self.allows_address(address, port) {
            true => Ok(()),
            false => Err(refused(RefusalReason::Address(special.kind))),
        }
    }

    fn literal(&self, address: IpAddr, port: u16) -> Result<(), RefusalReason> {
        if self.allows_address(address, port) {
            return Ok(());
        }
        // A granted range may contain a special address without allowing it, so the refusal names the address's kind.
        Err(special::of(address).map_or(RefusalReason::NotGranted, |special| RefusalReason::Address(special.kind)))
    }

    /// Returns true if a grant names the address itself, or a range that allows it.
    #[must_use]
    pub fn allows_address(&self, address: IpAddr, port: u16) -> bool {
        self.0.iter().any(|grant| grant.allows_port(port) && grant.allows_address(address))
    }
}

/// Parses a host that is written as an address, in the form that all resolvers read alike.
fn literal(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse().ok().map(IpAddr::V6),
        None => host.parse().ok(),
    }
}
