use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn grant(text: &str) -> NetGrant {
    NetGrant::new(text).unwrap_or_else(|error| panic!("{error}"))
}

fn rules(grants: &[&str]) -> NetRules {
    NetRules(grants.iter().map(|text| grant(text)).collect())
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn reason(result: Result<(), Refusal>) -> Option<RefusalReason> {
    result.err().map(|refusal| refusal.reason)
}

#[test]
fn normalizes_hosts() {
    for (text, want) in [
        ("Example.ORG.", "example.org"),
        ("example.org:443", "example.org:443"),
        ("192.0.2.1:80", "192.0.2.1:80"),
        ("[2001:DB8:0::1]:443", "[2001:db8::1]:443"),
        ("[::1]", "[::1]"),
        ("*.example.org", "*.example.org"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.0.0.0/8:5432", "10.0.0.0/8:5432"),
        ("[FD00::/8]:443", "[fd00::/8]:443"),
        ("10.1.2.3/32", "10.1.2.3"),
        ("[::1/128]:1", "[::1]:1"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("_sip._tcp.example.org", "_sip._tcp.example.org"),
    ] {
        assert_eq!(NetGrant::new(text).map(|g| g.to_string()), Ok(want.to_owned()));
    }
}

#[test]
fn rejects_invalid_hosts() {
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
        "*.*.a",
        "*a.b",
        "::1",
        "[::1",
        "[a]",
        "[::1]x",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "127.0.0.01",
        "*.1",
        "a@b",
        "a:80:90",
        "bücher.example",
        "a\0b",
        "10.0.0.0/33",
        "10.1.0.0/8",
        "10.0.0.0/",
        "fd00::/8",
        "[fd00::1/8]",
        "[10.0.0.0/8]",
        "[fe80::1%eth0]",
        "[*.a]",
        "a..",
        ".",
    ] {
        assert!(NetGrant::new(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn matches_names_by_whole_labels_in_any_spelling() {
    let any = rules(&["*.example.org"]);
    for good in ["a.example.org", "A.EXAMPLE.ORG.", "b.a.example.org"] {
        assert_eq!(any.name(good, 1), Ok(()), "{good}");
    }
    for other in ["example.org", "evilexample.org", "example.org.evil", "a.example.org.evil.com", "org"] {
        assert_eq!(reason(any.name(other, 1)), Some(RefusalReason::NotGranted), "{other}");
    }
    let one = rules(&["example.org:443"]);
    assert_eq!(one.name("EXAMPLE.org.", 443), Ok(()));
    assert_eq!(reason(one.name("example.org", 80)), Some(RefusalReason::NotGranted));
    assert_eq!(reason(one.name("a.example.org", 443)), Some(RefusalReason::NotGranted));
    assert_eq!(reason(rules(&["example.org"]).name("example.org", 0)), Some(RefusalReason::NotGranted));
}

#[test]
fn rejects_names_that_resolvers_read_as_addresses() {
    let all = rules(&["*.1", "example.org", "0.0.0.0/0"].map(|text| if text == "*.1" { "*.a1" } else { text }));
    for bad in [
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7F.1",
        "0177.0.0.1",
        "127.0.0.01",
        "example.org..",
        "",
        ".",
        "exämple.org",
        "example.org\0",
        "example.org\n",
        "exam ple.org",
        "example.org:80",
        "user@example.org",
        "example.org/",
        "[example.org]",
        "[127.0.0.1]",
        "::1%lo",
        "fe80::1%1",
        "１２７.0.0.1",
    ] {
        assert_eq!(reason(all.name(bad, 80)), Some(RefusalReason::InvalidHost), "{bad:?}");
    }
}

#[test]
fn granted_name_allows_only_public_addresses() {
    use AddressKind as Kind;
    let named = rules(&["db.example.org", "0.0.0.0/0", "[::/0]"]);
    for (address, kind) in [
        ("127.0.0.1", Kind::Loopback),
        ("127.255.0.1", Kind::Loopback),
        ("::1", Kind::Loopback),
        ("0.0.0.0", Kind::Unspecified),
        ("0.1.2.3", Kind::Unspecified),
        ("::", Kind::Unspecified),
        ("10.0.0.1", Kind::Private),
        ("172.16.0.1", Kind::Private),
        ("172.31.255.255", Kind::Private),
        ("192.168.1.1", Kind::Private),
        ("198.19.0.1", Kind::Private),
        ("fc00::1", Kind::Private),
        ("fdff::1", Kind::Private),
        ("fec0::1", Kind::Private),
        ("100.64.0.1", Kind::Shared),
        ("100.127.255.255", Kind::Shared),
        ("169.254.0.1", Kind::LinkLocal),
        ("fe80::1", Kind::LinkLocal),
        ("febf::1", Kind::LinkLocal),
        ("224.0.0.1", Kind::Multicast),
        ("ff02::1", Kind::Multicast),
        ("255.255.255.255", Kind::Reserved),
        ("192.0.0.1", Kind::Reserved),
        ("2001:db8::1", Kind::Reserved),
        ("4000::1", Kind::Reserved),
        ("169.254.169.254", Kind::Metadata),
        ("169.254.170.2", Kind::Metadata),
        ("100.100.100.200", Kind::Metadata),
        ("168.63.129.16", Kind::Metadata),
        ("fd00:ec2::254", Kind::Metadata),
        ("::ffff:127.0.0.1", Kind::EmbeddedIpv4),
        ("::ffff:8.8.8.8", Kind::EmbeddedIpv4),
        ("::ffff:0:8.8.8.8", Kind::EmbeddedIpv4),
        ("::8.8.8.8", Kind::EmbeddedIpv4),
        ("64:ff9b::127.0.0.1", Kind::EmbeddedIpv4),
        ("64:ff9b::169.254.169.254", Kind::EmbeddedIpv4),
        ("64:ff9b:1::8.8.8.8", Kind::EmbeddedIpv4),
        ("2002:7f00:1::", Kind::EmbeddedIpv4),
        ("2001::1", Kind::EmbeddedIpv4),
    ] {
        let want = Some(RefusalReason::Address(kind));
        assert_eq!(reason(named.address("db.example.org", ip(address), 5432)), want, "{address}");
        assert_eq!(reason(named.name(address, 5432)), want, "{address}");
    }
    for public in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1", "64:ff9b::8.8.8.8", "169.253.1.1"] {
        assert_eq!(named.address("db.example.org", ip(public), 5432), Ok(()), "{public}");
        assert_eq!(named.name(public, 5432), Ok(()), "{public}");
    }
}

#[test]
fn special_addresses_need_their_own_grant_or_range() {
    let range = rules(&["db.example.org", "10.0.0.0/8:5432", "169.254.0.0/16", "127.0.0.1:80", "[fd00::/8]"]);
    assert_eq!(range.address("db.example.org", ip("10.1.2.3"), 5432), Ok(()));
    assert_eq!(range.name("10.1.2.3", 5432), Ok(()));
    assert_eq!(range.name("[fd00::1]", 1), Ok(()));
    assert_eq!(range.name("fd00::1", 1), Ok(()));
    assert_eq!(range.name("169.254.1.1", 80), Ok(()));
    assert_eq!(range.address("db.example.org", ip("127.0.0.1"), 80), Ok(()));
    for (address, port) in [("10.1.2.3", 80), ("169.254.169.254", 80), ("fd00:ec2::254", 80), ("127.0.0.2", 80)] {
        assert!(range.address("db.example.org", ip(address), port).is_err(), "{address}:{port}");
        assert!(range.name(address, port).is_err(), "{address}:{port}");
    }
    // A grant of an address does not allow a name that resolves to it.
    assert_eq!(reason(range.address("other.example.org", ip("10.1.2.3"), 5432)), Some(RefusalReason::NotGranted));
    // A range that is wider than a special block allows only its public part.
    let wide = rules(&["8.0.0.0/6"]);
    assert_eq!(wide.name("11.0.0.1", 80), Ok(()));
    assert!(wide.name("10.0.0.1", 80).is_err());
    let itself = rules(&["169.254.169.254:80", "x.org"]);
    assert_eq!(itself.name("169.254.169.254", 80), Ok(()));
    assert_eq!(itself.address("x.org", ip("169.254.169.254"), 80), Ok(()));
    assert!(itself.name("[::ffff:169.254.169.254]", 80).is_err());
}

#[test]
fn localhost_allows_only_loopback() {
    let local = rules(&["localhost:8080", "*.localhost"]);
    assert_eq!(local.address("LOCALHOST.", ip("127.0.0.1"), 8080), Ok(()));
    assert_eq!(local.address("localhost", ip("::1"), 8080), Ok(()));
    assert!(local.address("localhost", ip("127.0.0.1"), 8081).is_err());
    assert!(local.address("localhost", ip("10.0.0.1"), 8080).is_err());
    assert!(local.address("a.localhost", ip("127.0.0.1"), 8080).is_err());
    assert!(local.name("127.0.0.1", 8080).is_err());
    assert!(rules(&["localhost.example.org"]).address("localhost.example.org", ip("127.0.0.1"), 1).is_err());
}

#[test]
fn denies_everything_without_grants() {
    let none = NetRules::default();
    for host in ["example.org", "8.8.8.8", "localhost", "127.0.0.1", "[::1]"] {
        assert!(none.name(host, 80).is_err() && none.address(host, ip("8.8.8.8"), 80).is_err(), "{host}");
    }
}

#[test]
fn address_grant_allows_only_that_address() {
    let rules = rules(&["8.8.8.8", "9.9.9.9"]);
    assert!(rules.address("8.8.8.8", ip("9.9.9.9"), 80).is_err());
    assert_eq!(rules.address("8.8.8.8", ip("8.8.8.8"), 80), Ok(()));
}

#[test]
fn formats_refusal_in_one_line_with_fix() {
    let rules = rules(&["db.example.org"]);
    for (result, want) in [
        (rules.name("other.org", 443), "cannot connect to other.org:443: it is not granted; add --net other.org:443"),
        (rules.name("a b", 1), "cannot connect to a b:1: not a host name or an address"),
        (rules.name("other.org", 0), "cannot connect to other.org:0: it is not granted"),
        (
            rules.address("db.example.org", ip("10.0.0.5"), 5432),
            "cannot connect to db.example.org:5432: it resolves to 10.0.0.5, a private address, which must be granted \
             explicitly; add --net 10.0.0.5:5432",
        ),
        (
            rules.name("[::1]", 80),
            "cannot connect to [::1]:80: it is a loopback address, which must be granted explicitly; add --net [::1]:80",
        ),
    ] {
        assert_eq!(result.map_err(|refusal| refusal.to_string()), Err(want.to_owned()));
    }
    let long = rules.name(&"é".repeat(1000), 1).expect_err("the name is invalid").to_string();
    assert!(long.len() < 400, "{long}");
}

#[test]
fn narrower_grant_is_within_wider_grant() {
    for (narrow, wide) in [
        ("a.org", "a.org"),
        ("a.org:443", "a.org"),
        ("x.a.org:1", "*.a.org"),
        ("*.b.a.org", "*.a.org"),
        ("10.1.0.0/16", "10.0.0.0/8"),
        ("10.1.2.3:5", "10.0.0.0/8"),
        ("8.8.8.8", "0.0.0.0/0"),
        ("8.0.0.0/8", "0.0.0.0/0"),
        ("[fd00::1]", "[fd00::/8]"),
        ("169.254.169.254", "169.254.169.254"),
    ] {
        assert!(grant(narrow).is_within(&grant(wide)), "{narrow} in {wide}");
    }
    for (narrow, wide) in [
        ("a.org", "a.org:443"),
        ("a.org:80", "a.org:443"),
        ("a.org", "*.a.org"),
        ("*.a.org", "a.org"),
        ("*.a.org", "*.b.a.org"),
        ("eviala.org", "*.a.org"),
        ("10.0.0.0/8", "10.1.0.0/16"),
        ("10.0.0.0/8", "0.0.0.0/0"),
        ("10.0.0.1", "0.0.0.0/0"),
        ("169.254.169.254", "169.254.0.0/16"),
        ("localhost", "127.0.0.0/8"),
        ("[fd00::/8]", "0.0.0.0/0"),
        ("10.0.0.0/8", "localhost"),
    ] {
        assert!(!grant(narrow).is_within(&grant(wide)), "{narrow} in {wide}");
    }
}

fn label() -> impl Strategy<Value = String> {
    "[a-c]{1,2}"
}

fn labels() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(label(), 1..5)
}

fn embed(inner: Ipv4Addr) -> [Ipv6Addr; 3] {
    let [a, b, c, d] = inner.octets();
    let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    [
        inner.to_ipv6_mapped(),
        Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
        Ipv6Addr::new(0x2001, 0, 1, 1, 0, 0, !high, !low),
    ]
}

proptest! {
    #[test]
    fn pattern_matches_exactly_names_with_more_labels(domain in labels(), host in labels(), dot in any::<bool>()) {
        let rules = rules(&[&format!("*.{}", domain.join("."))]);
        let below = host.len() > domain.len() && host.ends_with(&domain);
        let text = host.join(".").to_uppercase() + if dot { "." } else { "" };
        prop_assert_eq!(rules.name(&text, 80).is_ok(), below);
    }

    #[test]
    fn display_round_trips(host in "[a-z0-9*.:/\\[\\]-]{1,20}") {
        if let Ok(read) = NetGrant::new(&host) {
            let shown = read.to_string();
            prop_assert_eq!(NetGrant::new(&shown), Ok(read), "{}", shown);
        }
    }

    #[test]
    fn embedded_ipv4_address_does_not_bypass_name_grant(inner in any::<u32>()) {
        let inner = Ipv4Addr::from(inner);
        let rules = rules(&["x.org"]);
        for outer in embed(inner) {
            prop_assert!(rules.address("x.org", outer.into(), 80).is_err(), "{}", outer);
        }
        let [a, b, c, d] = inner.octets();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let nat64 = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low);
        let plain = rules.address("x.org", inner.into(), 80).is_ok();
        prop_assert_eq!(rules.address("x.org", nat64.into(), 80).is_ok(), plain);
    }

    #[test]
    fn name_grant_allows_no_address_that_std_calls_local(bits in any::<u32>(), wide in any::<u128>()) {
        let (four, six) = (Ipv4Addr::from(bits), Ipv6Addr::from(wide));
        let rules = rules(&["x.org", "0.0.0.0/0", "[::/0]"]);
        let local = four.is_loopback() || four.is_private() || four.is_link_local() || four.is_multicast()
            || four.is_broadcast() || four.is_unspecified() || four.is_documentation();
        prop_assert!(!local || rules.address("x.org", four.into(), 80).is_err());
        prop_assert!(!local || rules.name(&four.to_string(), 80).is_err());
        let global = wide >> 125 == 1;
        prop_assert!(global || six.octets().starts_with(&[0, 0x64, 0xff, 0x9b]) || rules.address("x.org", six.into(), 80).is_err());
    }

    #[test]
    fn rejects_names_that_end_in_a_number(head in "([a-z0-9]{1,3}\\.){0,3}", last in "([0-9]{1,10}|0[xX][0-9a-fA-F]{0,8})") {
        let text = format!("{head}{last}");
        let rules = rules(&["x.org", "*.x"]);
        if text.parse::<IpAddr>().is_err() {
            prop_assert!(NetGrant::new(&text).is_err());
            prop_assert_eq!(reason(rules.name(&text, 80)), Some(RefusalReason::InvalidHost));
        }
    }

    #[test]
    fn is_within_never_widens_names(narrow in "(\\*\\.)?([ab]\\.){0,2}o(:[12])?", wide in "(\\*\\.)?([ab]\\.){0,2}o(:[12])?", host in "([ab]\\.){0,3}o", port in 1u16..4) {
        let (narrow, wide) = (grant(&narrow), grant(&wide));
        if narrow.is_within(&wide) && NetRules(vec![narrow]).name(&host, port).is_ok() {
            prop_assert!(NetRules(vec![wide]).name(&host, port).is_ok());
        }
    }

    #[test]
    fn is_within_never_widens_ranges(one in any::<u32>(), bits in 0u8..=32, wider in 0u8..=32, host in any::<u32>()) {
        let net = |address: u32, bits: u8| {
            let net = Ipv4Net::new(Ipv4Addr::from(address), bits).expect("at most 32").trunc();
            grant(&net.to_string())
        };
        let (narrow, wide) = (net(one, bits), net(one, wider));
        // An address inside the narrow range.
        let mask = u32::MAX.checked_shr(u32::from(bits)).unwrap_or(0);
        let host = Ipv4Addr::from((one & !mask) | (host & mask)).to_string();
        if narrow.is_within(&wide) && NetRules(vec![narrow]).name(&host, 80).is_ok() {
            prop_assert!(NetRules(vec![wide]).name(&host, 80).is_ok(), "{}", host);
        }
    }
}

#[test]
fn check_any_port_accepts_grant_on_any_port() {
    let rules = rules(&["a.example:8443", "*.b.example", "192.0.2.1:81"]);
    for host in ["a.example", "A.example.", "x.b.example", "192.0.2.1"] {
        assert_eq!(rules.check_any_port(host), Ok(()), "{host}");
    }
    for host in ["b.example", "c.example", "192.0.2.2", "a.example:8443", "", "0xC0.0.2.1"] {
        assert!(rules.check_any_port(host).is_err(), "{host}");
    }
}
