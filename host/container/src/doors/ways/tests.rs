use std::net::IpAddr;

use codebox_core::{NetRules, NetVerdict};
use codebox_egress::{Dialer, EgressLimits};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

const LIMITS: EgressLimits =
    EgressLimits { bytes: None, connections: None, connect: std::time::Duration::from_secs(10) };

async fn listening() -> (TcpListener, u16) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    (listener, port)
}

fn ways(port: u16, limits: EgressLimits) -> Ways {
    let rules = NetRules(vec![format!("127.0.0.1:{port}").parse().expect("a grant")]);
    Ways::new(
        Egress::new(rules, limits, Dialer::Direct),
        vec![Target::Proxy, Target::Host("127.0.0.1".to_owned(), port)],
    )
}

async fn order(ways: &mut Ways) -> Order {
    match ways.next().await {
        Next::Order(order) => order,
        Next::Over(kind) => panic!("the limit {kind} was reached"),
    }
}

/// Returns the data of a connection up to its end.
async fn heard(ways: &mut Ways, number: u32) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        match order(ways).await {
            Order::Way(of, Said::Bytes(bytes)) if of == number => {
                ways.said(number, Said::Taken(u32::try_from(bytes.len()).expect("a piece is short")));
                all.extend(bytes);
            }
            Order::Way(of, Said::Gone) if of == number => return all,
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_door_leads_to_its_host() {
    let (listener, port) = listening().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("somebody comes");
        let mut question = Vec::new();
        stream.read_to_end(&mut question).await.expect("it ends");
        stream.write_all(&vec![b'x'; 3 * WINDOW]).await.expect("it is taken");
        question
    });
    let mut ways = ways(port, LIMITS);
    ways.knocked(5, 1);
    ways.said(5, Said::Bytes(b"question".to_vec()));
    ways.said(5, Said::End);
    assert_eq!(heard(&mut ways, 5).await, vec![b'x'; 3 * WINDOW]);
    assert_eq!(server.await.expect("it ends well"), b"question");
    let used = ways.finish(true).await;
    assert_eq!((used.sent, used.received), (8, 3 * WINDOW as u64));
    assert_eq!(used.attempts[0].verdict, NetVerdict::Allowed);
    assert_eq!(used.attempts[0].address, Some(IpAddr::from([127, 0, 0, 1])));
}

#[tokio::test]
async fn no_more_is_under_way_than_was_taken() {
    let (listener, port) = listening().await;
    let flood = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("somebody comes");
        let _ = stream.write_all(&vec![0; 64 << 20]).await;
    });
    let mut ways = ways(port, LIMITS);
    ways.knocked(0, 1);
    let mut came = 0;
    while came < WINDOW - MOST_PIECE {
        if let Order::Way(0, Said::Bytes(bytes)) = order(&mut ways).await {
            came += bytes.len();
        }
    }
    // No more than the window is ever in flight, whatever the guest acknowledges.
    ways.said(0, Said::Taken(u32::MAX));
    assert!(ways.open[&0].room.available_permits() <= WINDOW);
    ways.said(0, Said::Gone);
    assert!(ways.open.is_empty());
    ways.finish(true).await;
    flood.abort();
}

#[tokio::test]
async fn who_hangs_up_on_a_host_that_takes_nothing_leaves_nothing() {
    let (listener, port) = listening().await;
    let mut ways = ways(port, LIMITS);
    let mut kept = Vec::new();
    for number in 0..3 * MOST_CONNECTIONS as u32 {
        ways.knocked(number, 1);
        kept.push(listener.accept().await.expect("it is connected to"));
        ways.said(number, Said::Bytes(vec![0; WINDOW]));
        ways.said(number, Said::Gone);
        let ended = ways.tasks.join_next().await.expect("there is one");
        assert!(ended.is_err_and(|error| error.is_cancelled()));
    }
    assert!(ways.open.is_empty() && ways.tasks.is_empty());
}

#[tokio::test]
async fn an_agent_that_does_not_listen_costs_a_bounded_amount() {
    let (_listener, port) = listening().await;
    let mut ways = ways(port, LIMITS);
    // The agent accepts no requests and sends further events.
    for number in 0..=MOST_CUT as u32 {
        assert!(ways.check_backlog().is_ok(), "{number}");
        ways.knocked(number, 9);
    }
    assert!(ways.check_backlog().is_err());
    // The number of tasks is bounded as well, even if the results of the tasks are never collected.
    for number in 0..100 * MOST_CONNECTIONS as u32 {
        ways.knocked(number, 1);
        ways.said(number, Said::Gone);
        assert!(ways.tasks.len() <= 4 * MOST_CONNECTIONS);
    }
    assert!(ways.open.is_empty());
    ways.finish(false).await;
}

#[tokio::test]
async fn small_pieces_are_kept_as_bytes() {
    let (listener, port) = listening().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("somebody comes");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.expect("it ends");
        all
    });
    let mut ways = ways(port, LIMITS);
    ways.knocked(0, 1);
    // The whole window is sent before the task runs for the first time.
    for at in 0..WINDOW {
        ways.said(0, Said::Bytes(vec![at as u8]));
    }
    assert!(ways.open.contains_key(&0), "a full window is no breach");
    ways.said(0, Said::End);
    heard(&mut ways, 0).await;
    let all = server.await.expect("it ends well");
    assert!(all.len() == WINDOW && all.iter().enumerate().all(|(at, byte)| *byte == at as u8));
    ways.finish(true).await;
}

#[tokio::test]
async fn what_breaks_the_rules_is_cut_off() {
    let (_listener, port) = listening().await;
    let mut ways = ways(port, LIMITS);
    // The port forward does not exist; the number is in use; data of an unknown connection is ignored.
    ways.knocked(1, 9);
    assert_eq!(order(&mut ways).await, Order::Way(1, Said::Gone));
    ways.said(77, Said::Bytes(vec![0; 10]));
    ways.knocked(2, 1);
    ways.knocked(2, 1);
    assert_eq!(order(&mut ways).await, Order::Way(2, Said::Gone));
    // The window is exceeded, because the host does not read.
    ways.knocked(3, 1);
    for _ in 0..(2 + (16 << 20) / WINDOW) {
        ways.said(3, Said::Bytes(vec![0; WINDOW]));
    }
    assert!(!ways.open.contains_key(&3));
    // The limit on connections is exceeded.
    for number in 10..=(10 + 2 * MOST_CONNECTIONS as u32) {
        ways.knocked(number, 0);
    }
    assert_eq!(ways.open.len(), 2 * MOST_CONNECTIONS);
    // An empty chunk, and data after the end.
    for said in [Said::Bytes(Vec::new()), Said::End, Said::Bytes(vec![0])] {
        ways.said(10, said);
        assert!(!ways.open.contains_key(&10));
        ways.knocked(10, 0);
        ways.said(10, Said::End);
    }
    ways.finish(true).await;
}

#[tokio::test]
async fn a_limit_that_is_reached_is_told_once() {
    let (listener, port) = listening().await;
    let flood = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("somebody comes");
        let _ = stream.write_all(&[0; 1000]).await;
    });
    let mut ways = ways(port, EgressLimits { bytes: Some(100), ..LIMITS });
    ways.knocked(0, 1);
    let mut told = 0;
    loop {
        match ways.next().await {
            Next::Over(kind) => {
                assert_eq!(kind, LimitKind::NetBytes);
                told += 1;
            }
            Next::Order(Order::Way(0, Said::Gone)) => break,
            Next::Order(_) => {}
        }
    }
    assert!(told <= 1 && ways.egress.over() == Some(LimitKind::NetBytes));
    assert_eq!(ways.finish(true).await.received, 100);
    let _ = flood.await;
}

#[tokio::test]
async fn the_proxy_refuses_visibly() {
    let (_listener, port) = listening().await;
    let mut ways = ways(port, LIMITS);
    ways.knocked(4, 0);
    ways.said(4, Said::Bytes(b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n".to_vec()));
    ways.said(4, Said::End);
    let answer = String::from_utf8(heard(&mut ways, 4).await).expect("text");
    assert!(answer.starts_with("HTTP/1.1 403 codebox: evil.example:443: it is not granted\r\n"), "{answer}");
    let used = ways.finish(true).await;
    assert_eq!(used.denials()[0].hint, "add --net evil.example:443");
}

/// The last data arrives at a host that reads, and a part of the data never looks like the whole.
#[tokio::test]
async fn last_words_arrive_or_are_seen_not_to() {
    let (listener, port) = listening().await;
    for (ends, by_itself) in [(true, true), (false, true), (true, false)] {
        let mut ways = ways(port, LIMITS);
        ways.knocked(1, 1);
        let (mut stream, _) = listener.accept().await.expect("it is connected to");
        // Waits until this side is connected as well.
        while ways.egress.used().attempts.iter().all(|attempt| attempt.verdict != NetVerdict::Allowed) {
            tokio::task::yield_now().await;
        }
        for _ in 0..4 {
            ways.said(1, Said::Bytes(vec![b'x'; WINDOW / 4]));
        }
        if ends {
            ways.said(1, Said::End);
            ways.said(1, Said::Gone);
        }
        let taken = tokio::spawn(async move {
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await.map(|_| all.len())
        });
        ways.finish(by_itself).await;
        match taken.await.expect("it does not panic") {
            Ok(count) => {
                assert!(ends && by_itself && count == WINDOW, "{count} bytes, as if they were all: {ends}, {by_itself}")
            }
            Err(error) => assert!(!(ends && by_itself), "{error}"),
        }
    }
}

#[tokio::test]
async fn a_host_that_is_silent_is_given_up_after_the_program_has_ended_it() {
    let (listener, port) = listening().await;
    let mut ways = ways(port, LIMITS);
    ways.silence = Duration::from_millis(50);
    ways.knocked(3, 1);
    let _silent = listener.accept().await.expect("it is connected to");
    ways.said(3, Said::End);
    let before = tokio::time::Instant::now();
    while order(&mut ways).await != Order::Way(3, Said::Gone) {}
    assert!(before.elapsed() >= ways.silence);
}

/// A program that hangs up during an answer of the proxy frees its slot soon.
#[tokio::test]
async fn an_answer_that_nobody_reads_holds_no_place() {
    let (listener, port) = listening().await;
    let mut ways = ways(port, LIMITS);
    ways.knocked(6, 0);
    let request = format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: a\r\n\r\n");
    ways.said(6, Said::Bytes(request.into_bytes()));
    let (mut stream, _) = listener.accept().await.expect("it is connected to");
    let endless = tokio::spawn(async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        while stream.write_all(&[0; 1 << 16]).await.is_ok() {}
    });
    while !matches!(order(&mut ways).await, Order::Way(6, Said::Bytes(_))) {}
    ways.said(6, Said::End);
    ways.said(6, Said::Gone);
    // The program reads nothing more, so only the timeout can free the slot, long before a silent host would be
    // dropped.
    let until = SILENCE / 2;
    let left = timeout(until, async {
        while !ways.open.is_empty() {
            let _ = timeout(Duration::from_millis(50), ways.next()).await;
        }
    });
    assert!(left.await.is_ok() && ways.open.is_empty());
    endless.await.expect("its connection has ended");
}
