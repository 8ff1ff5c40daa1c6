use std::net::IpAddr;

use super::{AddressKind, NetGrant, Refusal, RefusalReason, host_name, special};

/// What one job may reach.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetRules(pub Vec<NetGrant>);

impl NetRules {
    /// Judges a host as the guest wrote it, before anybody looks it up. An address is judged as one.
    ///
    /// # Errors
    /// When no grant names it.
    pub fn name(&self, host: &str, port: u16) -> Result<(), Refusal> {
        let refused = |reason| Refusal::new(reason, host, port, None);
        if let Some(address) = literal(host) {
            return self.literal(address, port).map_err(refused);
        }
        let name = host_name(host).ok_or_else(|| refused(RefusalReason::BadHost))?;
        match self.0.iter().any(|grant| grant.is_on(port) && grant.is_name(&name)) {
            true => Ok(()),
            false => Err(refused(RefusalReason::NotGranted)),
        }
    }

    /// Judges a host that is named apart from any connection, and so without a port: it has to be granted on one.
    ///
    /// # Errors
    /// When no grant names it; what is told is what [`name`](Self::name) says of port 443.
    pub fn on_some_port(&self, host: &str) -> Result<(), Refusal> {
        self.name(host, 443).or_else(|refusal| {
            let ports = self.0.iter().filter_map(NetGrant::port);
            let mut others = ports.map(|port| self.name(host, port.get()));
            if others.any(|judged| judged.is_ok()) { Ok(()) } else { Err(refusal) }
        })
    }

    /// Judges an address that `host` led to; all that [`name`](Self::name) says holds here too.
    ///
    /// An address that is not of the public internet has to be granted as an address, or in a range that is wholly of
    /// its kind; a cloud's metadata address only by itself. A grant of the name `localhost` opens loopback.
    ///
    /// # Errors
    /// When no grant covers it.
    pub fn address(&self, host: &str, address: IpAddr, port: u16) -> Result<(), Refusal> {
        self.name(host, port)?;
        let refused = |reason| Refusal::new(reason, host, port, Some(address));
        if let Some(named) = literal(host) {
            return if named == address { Ok(()) } else { Err(refused(RefusalReason::NotGranted)) };
        }
        let Some(special) = special::of(address) else { return Ok(()) };
        let itself = special.kind == AddressKind::Loopback && host_name(host).as_deref() == Some("localhost");
        match itself || self.opens(address, port) {
            true => Ok(()),
            false => Err(refused(RefusalReason::Address(special.kind))),
        }
    }

    fn literal(&self, address: IpAddr, port: u16) -> Result<(), RefusalReason> {
        if self.opens(address, port) {
            return Ok(());
        }
        // Why it is not opened by a range that holds it is worth telling; of others there is nothing to say.
        Err(special::of(address).map_or(RefusalReason::NotGranted, |special| RefusalReason::Address(special.kind)))
    }

    /// Whether a grant names an address by itself, or by a range that opens it.
    #[must_use]
    pub fn opens(&self, address: IpAddr, port: u16) -> bool {
        self.0.iter().any(|grant| grant.is_on(port) && grant.opens(address))
    }
}

/// An address written as one, in the one way that everybody reads alike.
fn literal(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse().ok().map(IpAddr::V6),
        None => host.parse().ok(),
    }
}
