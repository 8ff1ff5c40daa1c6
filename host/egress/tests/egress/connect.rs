use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use codebox_core::{AddressKind, BoxFuture, LimitKind, NetAttempt, NetVerdict, RefusalReason};
use codebox_egress::{Dial, DialError, DialedStream, Dialer, Egress, EgressError, EgressLimits};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{LIMITS, echo, egress, listener, rules, server};

fn reason(error: EgressError) -> RefusalReason {
    match error {
        EgressError::Refused(refusal) => refusal.reason,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn counts_bytes_per_direction() {
    let port = echo().await;
    let egress = egress(&[&format!("localhost:{port}")], LIMITS);
    for _ in 0..2 {
        let mut connection = egress.connect("LOCALHOST.", port).await.expect("it is granted");
        connection.write_all(b"hello").await.expect("the connection is open");
        connection.shutdown().await.expect("the connection is open");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.expect("it ends");
        assert_eq!(answer, "hello");
    }
    let used = egress.used();
    assert_eq!((used.sent, used.received, used.attempts.len(), used.attempts[0].times), (10, 10, 1, 2));
    assert_eq!(used.attempts[0].verdict, NetVerdict::Allowed);
    assert!(used.attempts[0].address.is_some_and(|address| address.is_loopback()));
    assert_eq!((used.attempts[0].sent, used.attempts[0].received), (10, 10));
    assert_eq!(egress.reached_limit(), None);
}

/// A dialer that counts its calls and reports a fixed address for every connection.
struct FixedAddressDialer(AtomicUsize, IpAddr, u16);

impl Dial for FixedAddressDialer {
    fn dial<'a>(&'a self, _host: &'a str, _port: u16) -> BoxFuture<'a, Result<DialedStream, DialError>> {
        Box::pin(async {
            self.0.fetch_add(1, Ordering::Relaxed);
            let stream = std::net::TcpStream::connect(("127.0.0.1", self.2))?;
            Ok(DialedStream { stream, address: self.1 })
        })
    }
}

#[tokio::test]
async fn does_not_resolve_ungranted_names() {
    let (_listener, port) = listener().await;
    let dialer = Arc::new(FixedAddressDialer(AtomicUsize::new(0), IpAddr::from([8, 8, 8, 8]), port));
    let egress = Egress::new(rules(&["*.example.org:443"]), LIMITS, Dialer::Other(Arc::clone(&dialer) as _));
    for (host, port, why) in [
        ("example.org", 443, RefusalReason::NotGranted),
        ("a.example.org", 80, RefusalReason::NotGranted),
        ("127.1", 443, RefusalReason::InvalidHost),
        ("127.0.0.1", 443, RefusalReason::Address(AddressKind::Loopback)),
        ("169.254.169.254", 80, RefusalReason::Address(AddressKind::Metadata)),
        ("[::ffff:169.254.169.254]", 443, RefusalReason::Address(AddressKind::EmbeddedIpv4)),
    ] {
        assert_eq!(reason(egress.connect(host, port).await.expect_err(host)), why, "{host}");
    }
    assert_eq!(dialer.0.load(Ordering::Relaxed), 0);
    egress.connect("a.example.org", 443).await.expect("it is granted");
    assert_eq!(dialer.0.load(Ordering::Relaxed), 1);
    assert_eq!(egress.used().attempts.len(), 7);
    assert_eq!(egress.used().denials().len(), 6);
}

#[tokio::test]
async fn checks_address_reported_by_dialer() {
    let (_listener, port) = listener().await;
    for address in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00:ec2::254", "64:ff9b::10.0.0.1"] {
        let address: IpAddr = address.parse().expect("an address");
        let dialer = Dialer::Other(Arc::new(FixedAddressDialer(AtomicUsize::new(0), address, port)));
        let egress = Egress::new(rules(&["db.example.org", "0.0.0.0/0"]), LIMITS, dialer);
        let error = egress.connect("db.example.org", 5432).await.expect_err("the address is not granted");
        assert!(error.to_string().contains(&format!("it resolves to {address}, ")), "{error}");
        let NetAttempt { address: listed, verdict, .. } = egress.used().attempts.remove(0);
        assert_eq!(listed, Some(address));
        assert!(matches!(verdict, NetVerdict::Refused(RefusalReason::Address(_))));
    }
}

#[tokio::test]
async fn records_failed_attempts() {
    let (closed, port) = listener().await;
    drop(closed);
    let egress = egress(&[&format!("127.0.0.1:{port}"), "no-such-host.invalid"], LIMITS);
    assert!(matches!(egress.connect("127.0.0.1", port).await, Err(EgressError::Failed { .. })));
    assert!(matches!(egress.connect("no-such-host.invalid", 80).await, Err(EgressError::Failed { .. })));
    assert!(egress.used().attempts.iter().all(|attempt| matches!(attempt.verdict, NetVerdict::Failed(_))));
    assert!(!egress.used().may_have_connected());
}

/// A dialer that never connects.
struct PendingDialer;

impl Dial for PendingDialer {
    fn dial<'a>(&'a self, _host: &'a str, _port: u16) -> BoxFuture<'a, Result<DialedStream, DialError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn times_out_slow_dialer() {
    let egress = Egress::new(
        rules(&["a.org"]),
        EgressLimits { connect: Duration::from_millis(20), ..LIMITS },
        Dialer::Other(Arc::new(PendingDialer)),
    );
    let Err(EgressError::Failed { source, .. }) = egress.connect("a.org", 80).await else { panic!("it connected") };
    assert_eq!(source.kind(), std::io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn stops_at_byte_limit() {
    let port = server(|mut stream| async move {
        let _ = stream.write_all(&[7; 10_000]).await;
    })
    .await;
    let host = format!("127.0.0.1:{port}");
    let egress = egress(&[&host], EgressLimits { bytes: Some(4321), ..LIMITS });
    let mut connection = egress.connect("127.0.0.1", port).await.expect("it is granted");
    let mut all = Vec::new();
    connection.read_to_end(&mut all).await.expect_err("the limit is reached");
    assert_eq!((all.len(), egress.used().received), (4321, 4321));
    assert_eq!(egress.limit_reached().await, LimitKind::NetBytes);
    // After the limit is reached, no bytes are transferred and further attempts are recorded.
    assert_eq!(
        reason(egress.connect("127.0.0.1", port).await.expect_err("the limit is reached")),
        RefusalReason::Limit(LimitKind::NetBytes)
    );
    connection.write_all(b"x").await.expect_err("the limit is reached");
}

#[tokio::test]
async fn allows_exactly_the_byte_limit() {
    let port = server(|mut stream| async move {
        let _ = stream.write_all(&[7; 1000]).await;
    })
    .await;
    let egress = egress(&[&format!("127.0.0.1:{port}")], EgressLimits { bytes: Some(1000), ..LIMITS });
    let mut connection = egress.connect("127.0.0.1", port).await.expect("it is granted");
    let mut all = Vec::new();
    connection.read_to_end(&mut all).await.expect("it fits");
    assert_eq!((all.len(), egress.reached_limit()), (1000, None));
}

#[tokio::test]
async fn byte_limit_spans_all_connections() {
    let port = echo().await;
    let egress = egress(&[&format!("127.0.0.1:{port}")], EgressLimits { bytes: Some(100_000), ..LIMITS });
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let egress = egress.clone();
        tasks.spawn(async move {
            let connection = egress.connect("127.0.0.1", port).await.ok()?;
            let (mut from, mut to) = tokio::io::split(connection);
            let read = tokio::spawn(async move { tokio::io::copy(&mut from, &mut tokio::io::sink()).await });
            while to.write_all(&[1; 1000]).await.is_ok() {}
            read.await.ok()?.ok()
        });
    }
    tasks.join_all().await;
    let used = egress.used();
    assert_eq!(used.sent + used.received, 100_000);
    let listed: u64 = used.attempts.iter().map(|attempt| attempt.sent + attempt.received).sum();
    assert_eq!(listed, 100_000);
}

#[tokio::test]
async fn refused_attempts_do_not_count_as_connections() {
    let port = echo().await;
    let limits = EgressLimits { connections: Some(2), connect: Duration::from_secs(5), bytes: None };
    let egress = egress(&[&format!("127.0.0.1:{port}")], limits);
    for _ in 0..5 {
        egress.connect("other.example", 80).await.expect_err("it is not granted");
    }
    let _first = egress.connect("127.0.0.1", port).await.expect("within the limit");
    let _second = egress.connect("127.0.0.1", port).await.expect("within the limit");
    let error = egress.connect("127.0.0.1", port).await.expect_err("above the limit");
    assert_eq!(reason(error), RefusalReason::Limit(LimitKind::NetConnections));
    assert_eq!(egress.limit_reached().await, LimitKind::NetConnections);
}

#[tokio::test]
async fn bounds_attempt_list() {
    let egress = egress(&["a.org"], LIMITS);
    for number in 0..1000 {
        egress.connect(&format!("{number}.{}.org", "é".repeat(5000)), 80).await.expect_err("it is not granted");
    }
    let used = egress.used();
    // Refusals may take a quarter of the list.
    assert_eq!((used.attempts.len(), used.unlisted), (64, 936));
    assert!(used.attempts.iter().all(|attempt| attempt.host.len() < 300));
}

#[tokio::test]
async fn refusals_do_not_displace_connections() {
    let port = echo().await;
    let egress = egress(&["127.0.0.1"], LIMITS);
    for number in 0..500 {
        egress.connect(&format!("{number}.example"), 80).await.expect_err("it is not granted");
        egress.connect("again.example", 80).await.expect_err("it is not granted");
    }
    for _ in 0..3 {
        egress.connect("127.0.0.1", port).await.expect("it is granted");
    }
    egress.connect("127.0.0.1", 1).await.expect_err("the port is closed");
    let used = egress.used();
    let times =
        |host: &str| used.attempts.iter().filter(|one| one.host == host).map(|one| one.times).collect::<Vec<_>>();
    assert_eq!((times("again.example"), times("127.0.0.1")), (vec![500], vec![3, 1]));
    let all: u64 = used.attempts.iter().map(|one| one.times).sum();
    assert_eq!((all + used.unlisted, used.attempts.len()), (1004, 66));
}
