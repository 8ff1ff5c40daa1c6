use std::net::IpAddr;

use codebox_core::{NetRules, NetVerdict};
use codebox_egress::{Dialer, EgressLimits};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

const LIMITS: EgressLimits =
    EgressLimits { bytes: None, connections: None, connect: std::time::Duration::from_secs(10) };

async fn bind_listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let port = listener.local_addr().expect("the listener is bound").port();
    (listener, port)
}

fn job_connections(port: u16, limits: EgressLimits) -> JobConnections {
    let rules = NetRules(vec![format!("127.0.0.1:{port}").parse().expect("a grant")]);
    JobConnections::new(
        Egress::new(rules, limits, Dialer::Direct),
        vec![Target::Proxy, Target::Host("127.0.0.1".to_owned(), port)],
    )
}

async fn request(job_connections: &mut JobConnections) -> Request {
    match job_connections.next().await {
        NetworkEvent::Request(request) => request,
        NetworkEvent::LimitHit(kind) => panic!("the limit {kind} was reached"),
    }
}

/// Returns the data of a connection up to its end.
async fn receive_all(job_connections: &mut JobConnections, number: u32) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        match request(job_connections).await {
            Request::Connection(of, StreamEvent::Bytes(bytes)) if of == number => {
                job_connections.event(
                    number,
                    StreamEvent::WindowUpdate(u32::try_from(bytes.len()).expect("a chunk is shorter than 4 GiB")),
                );
                all.extend(bytes);
            }
            Request::Connection(of, StreamEvent::Closed) if of == number => return all,
            _ => {}
        }
    }
}

#[tokio::test]
async fn forwards_connection_to_its_host() {
    let (listener, port) = bind_listener().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection is accepted");
        let mut question = Vec::new();
        stream.read_to_end(&mut question).await.expect("it ends");
        stream.write_all(&vec![b'x'; 3 * WINDOW]).await.expect("the data is sent");
        question
    });
    let mut job_connections = job_connections(port, LIMITS);
    job_connections.open_connection(5, 1);
    job_connections.event(5, StreamEvent::Bytes(b"question".to_vec()));
    job_connections.event(5, StreamEvent::End);
    assert_eq!(receive_all(&mut job_connections, 5).await, vec![b'x'; 3 * WINDOW]);
    assert_eq!(server.await.expect("the server does not panic"), b"question");
    let used = job_connections.finish(true).await;
    assert_eq!((used.sent, used.received), (8, 3 * WINDOW as u64));
    assert_eq!(used.attempts[0].verdict, NetVerdict::Allowed);
    assert_eq!(used.attempts[0].address, Some(IpAddr::from([127, 0, 0, 1])));
}

#[tokio::test]
async fn limits_bytes_in_flight_to_the_window() {
    let (listener, port) = bind_listener().await;
    let flood = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection is accepted");
        let _ = stream.write_all(&vec![0; 64 << 20]).await;
    });
    let mut job_connections = job_connections(port, LIMITS);
    job_connections.open_connection(0, 1);
    let mut received_len = 0;
    while received_len < WINDOW - MAX_CHUNK_SIZE {
        if let Request::Connection(0, StreamEvent::Bytes(bytes)) = request(&mut job_connections).await {
            received_len += bytes.len();
        }
    }
    // No more than the window is ever in flight, whatever the guest acknowledges.
    job_connections.event(0, StreamEvent::WindowUpdate(u32::MAX));
    assert!(job_connections.open[&0].credit.available_permits() <= WINDOW);
    job_connections.event(0, StreamEvent::Closed);
    assert!(job_connections.open.is_empty());
    job_connections.finish(true).await;
    flood.abort();
}

#[tokio::test]
async fn frees_connection_when_guest_hangs_up_on_stalled_host() {
    let (listener, port) = bind_listener().await;
    let mut job_connections = job_connections(port, LIMITS);
    let mut kept = Vec::new();
    for number in 0..3 * MAX_CONNECTIONS as u32 {
        job_connections.open_connection(number, 1);
        kept.push(listener.accept().await.expect("a connection is accepted"));
        job_connections.event(number, StreamEvent::Bytes(vec![0; WINDOW]));
        job_connections.event(number, StreamEvent::Closed);
        let ended = job_connections.tasks.join_next().await.expect("a task has ended");
        assert!(ended.is_err_and(|error| error.is_cancelled()));
    }
    assert!(job_connections.open.is_empty() && job_connections.tasks.is_empty());
}

#[tokio::test]
async fn bounds_backlog_of_unresponsive_agent() {
    let (_listener, port) = bind_listener().await;
    let mut job_connections = job_connections(port, LIMITS);
    // The agent accepts no requests and sends further events.
    for number in 0..=MAX_CLOSE_REQUESTS as u32 {
        assert!(job_connections.check_backlog().is_ok(), "{number}");
        job_connections.open_connection(number, 9);
    }
    assert!(job_connections.check_backlog().is_err());
    // The number of tasks is bounded as well, even if the results of the tasks are never collected.
    for number in 0..100 * MAX_CONNECTIONS as u32 {
        job_connections.open_connection(number, 1);
        job_connections.event(number, StreamEvent::Closed);
        assert!(job_connections.tasks.len() <= 4 * MAX_CONNECTIONS);
    }
    assert!(job_connections.open.is_empty());
    job_connections.finish(false).await;
}

#[tokio::test]
async fn accepts_a_window_of_one_byte_chunks() {
    let (listener, port) = bind_listener().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection is accepted");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.expect("it ends");
        all
    });
    let mut job_connections = job_connections(port, LIMITS);
    job_connections.open_connection(0, 1);
    // The whole window is sent before the task runs for the first time.
    for at in 0..WINDOW {
        job_connections.event(0, StreamEvent::Bytes(vec![at as u8]));
    }
    assert!(job_connections.open.contains_key(&0), "a full window is no breach");
    job_connections.event(0, StreamEvent::End);
    receive_all(&mut job_connections, 0).await;
    let all = server.await.expect("the server does not panic");
    assert!(all.len() == WINDOW && all.iter().enumerate().all(|(at, byte)| *byte == at as u8));
    job_connections.finish(true).await;
}

#[tokio::test]
async fn closes_connection_on_protocol_violation() {
    let (_listener, port) = bind_listener().await;
    let mut job_connections = job_connections(port, LIMITS);
    // The port forward does not exist; the number is in use; data of an unknown connection is ignored.
    job_connections.open_connection(1, 9);
    assert_eq!(request(&mut job_connections).await, Request::Connection(1, StreamEvent::Closed));
    job_connections.event(77, StreamEvent::Bytes(vec![0; 10]));
    job_connections.open_connection(2, 1);
    job_connections.open_connection(2, 1);
    assert_eq!(request(&mut job_connections).await, Request::Connection(2, StreamEvent::Closed));
    // The window is exceeded, because the host does not read.
    job_connections.open_connection(3, 1);
    for _ in 0..(2 + (16 << 20) / WINDOW) {
        job_connections.event(3, StreamEvent::Bytes(vec![0; WINDOW]));
    }
    assert!(!job_connections.open.contains_key(&3));
    // The limit on connections is exceeded.
    for number in 10..=(10 + 2 * MAX_CONNECTIONS as u32) {
        job_connections.open_connection(number, 0);
    }
    assert_eq!(job_connections.open.len(), 2 * MAX_CONNECTIONS);
    // An empty chunk, and data after the end.
    for event in [StreamEvent::Bytes(Vec::new()), StreamEvent::End, StreamEvent::Bytes(vec![0])] {
        job_connections.event(10, event);
        assert!(!job_connections.open.contains_key(&10));
        job_connections.open_connection(10, 0);
        job_connections.event(10, StreamEvent::End);
    }
    job_connections.finish(true).await;
}

#[tokio::test]
async fn reports_reached_limit_once() {
    let (listener, port) = bind_listener().await;
    let flood = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection is accepted");
        let _ = stream.write_all(&[0; 1000]).await;
    });
    let mut job_connections = job_connections(port, EgressLimits { bytes: Some(100), ..LIMITS });
    job_connections.open_connection(0, 1);
    let mut reports = 0;
    loop {
        match job_connections.next().await {
            NetworkEvent::LimitHit(kind) => {
                assert_eq!(kind, LimitKind::NetBytes);
                reports += 1;
            }
            NetworkEvent::Request(Request::Connection(0, StreamEvent::Closed)) => break,
            NetworkEvent::Request(_) => {}
        }
    }
    assert!(reports <= 1 && job_connections.egress.reached_limit() == Some(LimitKind::NetBytes));
    assert_eq!(job_connections.finish(true).await.received, 100);
    let _ = flood.await;
}

#[tokio::test]
async fn proxy_reports_denied_host() {
    let (_listener, port) = bind_listener().await;
    let mut job_connections = job_connections(port, LIMITS);
    job_connections.open_connection(4, 0);
    job_connections
        .event(4, StreamEvent::Bytes(b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n".to_vec()));
    job_connections.event(4, StreamEvent::End);
    let answer = String::from_utf8(receive_all(&mut job_connections, 4).await).expect("text");
    assert!(answer.starts_with("HTTP/1.1 403 codebox: evil.example:443: it is not granted\r\n"), "{answer}");
    let used = job_connections.finish(true).await;
    assert_eq!(used.denials()[0].hint, "add --net evil.example:443");
}

/// The last data arrives at a host that reads, and a part of the data never looks like the whole.
#[tokio::test]
async fn delivers_last_data_or_resets_connection() {
    let (listener, port) = bind_listener().await;
    for (ends, by_itself) in [(true, true), (false, true), (true, false)] {
        let mut job_connections = job_connections(port, LIMITS);
        job_connections.open_connection(1, 1);
        let (mut stream, _) = listener.accept().await.expect("a connection is accepted");
        // Waits until this side is connected as well.
        while job_connections.egress.used().attempts.iter().all(|attempt| attempt.verdict != NetVerdict::Allowed) {
            tokio::task::yield_now().await;
        }
        for _ in 0..4 {
            job_connections.event(1, StreamEvent::Bytes(vec![b'x'; WINDOW / 4]));
        }
        if ends {
            job_connections.event(1, StreamEvent::End);
            job_connections.event(1, StreamEvent::Closed);
        }
        let reader = tokio::spawn(async move {
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await.map(|_| all.len())
        });
        job_connections.finish(by_itself).await;
        match reader.await.expect("it does not panic") {
            Ok(count) => {
                assert!(ends && by_itself && count == WINDOW, "{count} bytes, as if they were all: {ends}, {by_itself}")
            }
            Err(error) => assert!(!(ends && by_itself), "{error}"),
        }
    }
}

#[tokio::test]
async fn closes_connection_to_silent_host_after_guest_eof() {
    let (listener, port) = bind_listener().await;
    let mut job_connections = job_connections(port, LIMITS);
    job_connections.idle_timeout = Duration::from_millis(50);
    job_connections.open_connection(3, 1);
    let _silent = listener.accept().await.expect("a connection is accepted");
    job_connections.event(3, StreamEvent::End);
    let before = tokio::time::Instant::now();
    while request(&mut job_connections).await != Request::Connection(3, StreamEvent::Closed) {}
    assert!(before.elapsed() >= job_connections.idle_timeout);
}

/// A program that hangs up during an answer of the proxy frees its slot soon.
#[tokio::test]
async fn frees_slot_when_guest_stops_reading_proxy_answer() {
    let (listener, port) = bind_listener().await;
    let mut job_connections = job_connections(port, LIMITS);
    job_connections.open_connection(6, 0);
    let http_request = format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: a\r\n\r\n");
    job_connections.event(6, StreamEvent::Bytes(http_request.into_bytes()));
    let (mut stream, _) = listener.accept().await.expect("a connection is accepted");
    let endless = tokio::spawn(async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        while stream.write_all(&[0; 1 << 16]).await.is_ok() {}
    });
    while !matches!(request(&mut job_connections).await, Request::Connection(6, StreamEvent::Bytes(_))) {}
    job_connections.event(6, StreamEvent::End);
    job_connections.event(6, StreamEvent::Closed);
    // The program reads nothing more, so only the timeout can free the slot, long before a silent host would be
    // dropped.
    let until = IDLE_TIMEOUT / 2;
    let left = timeout(until, async {
        while !job_connections.open.is_empty() {
            let _ = timeout(Duration::from_millis(50), job_connections.next()).await;
        }
    });
    assert!(left.await.is_ok() && job_connections.open.is_empty());
    endless.await.expect("its connection has ended");
}
