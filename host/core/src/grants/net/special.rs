//! Addresses that are not of the public internet.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Why an address is not one of the public internet's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressKind {
    /// This machine.
    Loopback,
    /// An address of the public internet that is one of this machine's own.
    Own,
    /// Machines on the same wire.
    LinkLocal,
    /// A network of somebody's own.
    Private,
    /// A provider's own network (100.64.0.0/10).
    Shared,
    /// Many machines at once.
    Multicast,
    /// No address; systems take it for this machine.
    Unspecified,
    /// An IPv6 address that carries an IPv4 address.
    Wrapped,
    /// Where a cloud tells its machines their secrets.
    Metadata,
    /// Set apart for something else: documentation, tests, the future.
    Reserved,
}

impl fmt::Display for AddressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "a loopback address",
            Self::Own => "an address of this machine",
            Self::LinkLocal => "a link-local address",
            Self::Private => "a private address",
            Self::Shared => "a provider's shared address",
            Self::Multicast => "a multicast address",
            Self::Unspecified => "an unspecified address",
            Self::Wrapped => "an IPv4 address inside an IPv6 one",
            Self::Metadata => "a cloud's metadata address",
            Self::Reserved => "a reserved address",
        })
    }
}

impl AddressKind {
    /// What an address is, unless it is one of the public internet. Whether it is one of this machine's own, only the machine
    /// can tell.
    #[must_use]
    pub fn of(address: IpAddr) -> Option<Self> {
        of(address).map(|special| special.kind)
    }
}

/// What is known of an address that is not of the public internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Special {
    pub(super) kind: AddressKind,
    block: IpNet,
}

impl Special {
    /// Whether a granted range that holds the address opens it: it must be a part of what is special, so that nobody
    /// who grants the whole internet opens the machine's own networks. A range of wrappings holds all of IPv4, those of this
    /// machine too, so it opens none.
    pub(super) fn opened_by(self, range: &IpNet) -> bool {
        !matches!(self.kind, AddressKind::Metadata | AddressKind::Wrapped) && self.block.contains(range)
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits))
}

const fn v6(one: u16, two: u16, three: u16, six: u16, bits: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(one, two, three, 0, 0, six, 0, 0), bits))
}

/// The blocks, the narrower before the wider.
const BLOCKS: [(IpNet, AddressKind); 33] = [
    (v4(0, 0, 0, 0, 8), AddressKind::Unspecified),
    (v4(10, 0, 0, 0, 8), AddressKind::Private),
    (v4(100, 64, 0, 0, 10), AddressKind::Shared),
    (v4(127, 0, 0, 0, 8), AddressKind::Loopback),
    (v4(169, 254, 0, 0, 16), AddressKind::LinkLocal),
    (v4(172, 16, 0, 0, 12), AddressKind::Private),
    (v4(192, 0, 0, 0, 24), AddressKind::Reserved),
    (v4(192, 0, 2, 0, 24), AddressKind::Reserved),
    (v4(192, 88, 99, 0, 24), AddressKind::Wrapped),
    (v4(192, 168, 0, 0, 16), AddressKind::Private),
    (v4(198, 18, 0, 0, 15), AddressKind::Private),
    (v4(198, 51, 100, 0, 24), AddressKind::Reserved),
    (v4(203, 0, 113, 0, 24), AddressKind::Reserved),
    (v4(224, 0, 0, 0, 4), AddressKind::Multicast),
    (v4(240, 0, 0, 0, 4), AddressKind::Reserved),
    (IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 128)), AddressKind::Unspecified),
    (IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128)), AddressKind::Loopback),
    // IPv4-mapped, -translated and -compatible.
    (v6(0, 0, 0, 0xffff, 96), AddressKind::Wrapped),
    (IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96)), AddressKind::Wrapped),
    (v6(0, 0, 0, 0, 96), AddressKind::Wrapped),
    // NAT64 of somebody's own; 6to4; Teredo.
    (v6(0x64, 0xff9b, 1, 0, 48), AddressKind::Wrapped),
    (v6(0x2002, 0, 0, 0, 16), AddressKind::Wrapped),
    (v6(0x2001, 0, 0, 0, 32), AddressKind::Wrapped),
    (v6(0x2001, 0xdb8, 0, 0, 32), AddressKind::Reserved),
    (v6(0x2001, 0, 0, 0, 23), AddressKind::Reserved),
    (v6(0x3fff, 0, 0, 0, 20), AddressKind::Reserved),
    (v6(0xfc00, 0, 0, 0, 7), AddressKind::Private),
    (v6(0xfe80, 0, 0, 0, 10), AddressKind::LinkLocal),
    (v6(0xfec0, 0, 0, 0, 10), AddressKind::Private),
    (v6(0xff00, 0, 0, 0, 8), AddressKind::Multicast),
    // What is left outside of 2000::/3 is nobody's.
    (v6(0, 0, 0, 0, 3), AddressKind::Reserved),
    (v6(0x4000, 0, 0, 0, 2), AddressKind::Reserved),
    (v6(0x8000, 0, 0, 0, 1), AddressKind::Reserved),
];

/// Where clouds answer their machines; two of them lie among public addresses or in no block of this sort.
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

/// The prefix under which a network without IPv4 of its own shows all of IPv4.
const NAT64: IpNet = v6(0x64, 0xff9b, 0, 0, 96);

/// What `address` is, unless it is one of the public internet.
pub(super) fn of(address: IpAddr) -> Option<Special> {
    if METADATA.contains(&address) {
        return Some(Special { kind: AddressKind::Metadata, block: IpNet::from(address) });
    }
    if let (IpAddr::V6(wrapped), true) = (address, NAT64.contains(&address)) {
        // The one wrapping that a machine with IPv6 alone needs to reach the public internet: as good as what is in it.
        let [.., a, b, c, d] = wrapped.octets();
        of(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))?;
        return Some(Special { kind: AddressKind::Wrapped, block: NAT64 });
    }
    let (block, kind) = BLOCKS.iter().find(|(block, _)| block.contains(&address))?;
    Some(Special { kind: *kind, block: *block })
}

/// The block that a range lies wholly inside of.
pub(super) fn block_around(range: &IpNet) -> Option<IpNet> {
    let mut blocks = BLOCKS.iter().map(|(block, _)| *block).chain([NAT64]);
    blocks.find(|block| block.contains(range))
}
