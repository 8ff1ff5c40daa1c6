//! Addresses outside the public internet.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

/// Kind of an address that does not count as part of the public internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AddressKind {
    /// A loopback address.
    Loopback,
    /// A public address that belongs to this machine.
    ThisMachine,
    /// An address on the local link.
    LinkLocal,
    /// An address of a private network.
    Private,
    /// An address of a provider's shared network (100.64.0.0/10).
    Shared,
    /// A multicast address.
    Multicast,
    /// An unspecified address, which systems treat as this machine.
    Unspecified,
    /// An IPv6 address that embeds an IPv4 address.
    EmbeddedIpv4,
    /// An address of a cloud's metadata service, which hands out credentials.
    Metadata,
    /// An address reserved for documentation, tests or future use.
    Reserved,
}

impl fmt::Display for AddressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "a loopback address",
            Self::ThisMachine => "an address of this machine",
            Self::LinkLocal => "a link-local address",
            Self::Private => "a private address",
            Self::Shared => "a shared provider address",
            Self::Multicast => "a multicast address",
            Self::Unspecified => "an unspecified address",
            Self::EmbeddedIpv4 => "an IPv4 address embedded in an IPv6 address",
            Self::Metadata => "a cloud metadata address",
            Self::Reserved => "a reserved address",
        })
    }
}

impl AddressKind {
    /// Returns the kind of an address, or `None` if it is public.
    ///
    /// Never returns [`Self::ThisMachine`], because only the machine itself knows its own addresses.
    #[must_use]
    pub fn of(address: IpAddr) -> Option<Self> {
        of(address).map(|special| special.kind)
    }
}

/// Classification of an address outside the public internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Special {
    pub(super) kind: AddressKind,
    block: IpNet,
}

impl Special {
    /// Returns true if a granted range that contains the address allows it.
    ///
    /// The range must lie within the special block, so that a grant of the whole internet does not allow the machine's
    /// own networks. A range of IPv6 addresses that embed IPv4 addresses contains all of IPv4, including the machine's
    /// own networks, so it never allows an address. A metadata address has to be granted itself.
    pub(super) fn is_allowed_by(self, range: &IpNet) -> bool {
        !matches!(self.kind, AddressKind::Metadata | AddressKind::EmbeddedIpv4) && self.block.contains(range)
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits))
}

const fn v6(one: u16, two: u16, three: u16, six: u16, bits: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(one, two, three, 0, 0, six, 0, 0), bits))
}

/// Special blocks; a narrower block comes before a wider one.
const BLOCKS: [(IpNet, AddressKind); 33] = [
    (v4(0, 0, 0, 0, 8), AddressKind::Unspecified),
    (v4(10, 0, 0, 0, 8), AddressKind::Private),
    (v4(100, 64, 0, 0, 10), AddressKind::Shared),
    (v4(127, 0, 0, 0, 8), AddressKind::Loopback),
    (v4(169, 254, 0, 0, 16), AddressKind::LinkLocal),
    (v4(172, 16, 0, 0, 12), AddressKind::Private),
    (v4(192, 0, 0, 0, 24), AddressKind::Reserved),
    (v4(192, 0, 2, 0, 24), AddressKind::Reserved),
    (v4(192, 88, 99, 0, 24), AddressKind::EmbeddedIpv4),
    (v4(192, 168, 0, 0, 16), AddressKind::Private),
    (v4(198, 18, 0, 0, 15), AddressKind::Private),
    (v4(198, 51, 100, 0, 24), AddressKind::Reserved),
    (v4(203, 0, 113, 0, 24), AddressKind::Reserved),
    (v4(224, 0, 0, 0, 4), AddressKind::Multicast),
    (v4(240, 0, 0, 0, 4), AddressKind::Reserved),
    (IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 128)), AddressKind::Unspecified),
    (IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128)), AddressKind::Loopback),
    // IPv4-mapped, IPv4-translated and IPv4-compatible addresses.
    (v6(0, 0, 0, 0xffff, 96), AddressKind::EmbeddedIpv4),
    (IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96)), AddressKind::EmbeddedIpv4),
    (v6(0, 0, 0, 0, 96), AddressKind::EmbeddedIpv4),
    // Local-use NAT64, 6to4 and Teredo.
    (v6(0x64, 0xff9b, 1, 0, 48), AddressKind::EmbeddedIpv4),
    (v6(0x2002, 0, 0, 0, 16), AddressKind::EmbeddedIpv4),
    (v6(0x2001, 0, 0, 0, 32), AddressKind::EmbeddedIpv4),
    (v6(0x2001, 0xdb8, 0, 0, 32), AddressKind::Reserved),
    (v6(0x2001, 0, 0, 0, 23), AddressKind::Reserved),
    (v6(0x3fff, 0, 0, 0, 20), AddressKind::Reserved),
    (v6(0xfc00, 0, 0, 0, 7), AddressKind::Private),
    (v6(0xfe80, 0, 0, 0, 10), AddressKind::LinkLocal),
    (v6(0xfec0, 0, 0, 0, 10), AddressKind::Private),
    (v6(0xff00, 0, 0, 0, 8), AddressKind::Multicast),
    // The rest of the address space outside 2000::/3 is unassigned.
    (v6(0, 0, 0, 0, 3), AddressKind::Reserved),
    (v6(0x4000, 0, 0, 0, 2), AddressKind::Reserved),
    (v6(0x8000, 0, 0, 0, 1), AddressKind::Reserved),
];

/// Addresses of cloud metadata services. One of them, 168.63.129.16, is in no special block.
const METADATA: [IpAddr; 13] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 0, 23)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 42, 42)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42)),
    IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 23)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

/// Well-known NAT64 prefix, which maps all of IPv4 for an IPv6-only network.
const NAT64: IpNet = v6(0x64, 0xff9b, 0, 0, 96);

/// Classifies `address`; returns `None` if it is public.
pub(super) fn of(address: IpAddr) -> Option<Special> {
    if METADATA.contains(&address) {
        return Some(Special { kind: AddressKind::Metadata, block: IpNet::from(address) });
    }
    if let (IpAddr::V6(wrapped), true) = (address, NAT64.contains(&address)) {
        // An IPv6-only machine needs this prefix to reach the public IPv4 internet, so the embedded address decides.
        let [.., a, b, c, d] = wrapped.octets();
        of(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))?;
        return Some(Special { kind: AddressKind::EmbeddedIpv4, block: NAT64 });
    }
    let (block, kind) = BLOCKS.iter().find(|(block, _)| block.contains(&address))?;
    Some(Special { kind: *kind, block: *block })
}

/// Returns the special block that contains the whole range.
pub(super) fn enclosing_block(range: &IpNet) -> Option<IpNet> {
    let mut blocks = BLOCKS.iter().map(|(block, _)| *block).chain([NAT64]);
    blocks.find(|block| block.contains(range))
}
