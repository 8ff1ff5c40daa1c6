use codebox_core::NetVerdict;
use codebox_egress::{Egress, EgressLimits, proxy};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use crate::support::{LIMITS, echo, egress, request, server};

fn connect_to_proxy(egress: &Egress) -> DuplexStream {
    let (near, far) = duplex(1 << 16);
    tokio::spawn(proxy::serve(far, egress.clone(), || {}));
    near
}

/// Sends a request and reads the response until the proxy closes the connection.
async fn send_request(egress: &Egress, text: &str) -> String {
    let mut near = connect_to_proxy(egress);
    near.write_all(text.as_bytes()).await.expect("the data is sent");
    near.shutdown().await.expect("the connection is open");
    let mut answer = Vec::new();
    near.read_to_end(&mut answer).await.expect("it ends");
    String::from_utf8(answer).expect("text")
}

#[tokio::test]
async fn tunnels_bytes_in_both_directions() {
    let port = echo().await;
    let egress = egress(&[&format!("localhost:{port}")], LIMITS);
    let mut near = connect_to_proxy(&egress);
    let head = format!("CONNECT localhost:{port} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
    near.write_all(head.as_bytes()).await.expect("the data is sent");
    let mut answer = [0; 15];
    near.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    near.write_all(&[0xff; 100_000]).await.expect("the data is sent");
    near.shutdown().await.expect("the connection is open");
    let mut rest = Vec::new();
    near.read_to_end(&mut rest).await.expect("it ends");
    assert!(rest.ends_with(&[0xff; 100_000]) && rest.len() < 100_500);
    assert_eq!(egress.used().sent, 100_000);
}

#[tokio::test]
async fn forwards_plain_request_without_proxy_headers() {
    let port = server(|mut stream| async move {
        let heard = request(&mut stream).await;
        let answer = format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nX-Mine: 1\r\nContent-Length: {}\r\n\r\n{heard}",
            heard.len()
        );
        let _ = stream.write_all(answer.as_bytes()).await;
    })
    .await;
    let egress = egress(&[&format!("localhost:{port}")], LIMITS);
    let text = format!(
        "POST http://localhost:{port}/a?b=c HTTP/1.1\r\nHost: evil.example\r\nProxy-Connection: keep-alive\r\n\
         Proxy-Authorization: Basic secret\r\nConnection: x-hop, close\r\nX-Hop: 1\r\nX-Kept: 1\r\nContent-Length: 4\r\n\r\nbody"
    );
    let answer = send_request(&egress, &text).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("X-Mine: 1"), "{answer}");
    let (_, heard) = answer.split_once("\r\n\r\n").expect("a body");
    assert!(heard.starts_with("POST /a?b=c HTTP/1.1\r\n") && heard.ends_with("\r\n\r\nbody"), "{heard}");
    assert!(heard.contains(&format!("localhost:{port}\r\n")) && heard.contains("X-Kept: 1"), "{heard}");
    for gone in ["evil.example", "secret", "Proxy-", "X-Hop"] {
        assert!(!heard.contains(gone), "{gone}: {heard}");
    }
}

#[tokio::test]
async fn checks_each_request_and_follows_no_redirects() {
    let port = server(|mut stream| async move {
        let _ = request(&mut stream).await;
        let answer =
            "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let _ = stream.write_all(answer.as_bytes()).await;
    })
    .await;
    let egress = egress(&[&format!("localhost:{port}")], LIMITS);
    let one = format!("GET http://localhost:{port}/ HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let two = "GET http://127.0.0.1:1/ HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answer = send_request(&egress, &format!("{one}{two}")).await;
    assert!(answer.starts_with("HTTP/1.1 302 Found"), "{answer}");
    let refused = "HTTP/1.1 403 codebox: 127.0.0.1:1: it is a loopback address, which must be granted explicitly\r\n";
    assert!(answer.contains(refused), "{answer}");
    let verdicts: Vec<_> = egress.used().attempts.into_iter().map(|attempt| attempt.verdict).collect();
    assert!(matches!(verdicts[..], [NetVerdict::Allowed, NetVerdict::Refused(_)]), "{verdicts:?}");
}

#[tokio::test]
async fn rejects_invalid_proxy_requests() {
    let egress = egress(&["a.org"], LIMITS);
    for (text, status) in [
        ("GET / HTTP/1.1\r\nHost: a.org\r\n\r\n", "400"),
        ("GET https://a.org/ HTTP/1.1\r\nHost: a.org\r\n\r\n", "400"),
        ("CONNECT a.org HTTP/1.1\r\nHost: a.org\r\n\r\n", "400"),
        ("\x16\x03\x01\x00\x05hello", "400"),
        ("CONNECT other.org:443 HTTP/1.1\r\n\r\n", "403"),
        ("CONNECT user@other.org:443 HTTP/1.1\r\n\r\n", "403"),
        ("CONNECT 127.1:443 HTTP/1.1\r\n\r\n", "403"),
        ("CONNECT [::ffff:10.0.0.1]:443 HTTP/1.1\r\n\r\n", "403"),
    ] {
        let answer = send_request(&egress, text).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{text:?}: {answer:?}");
    }
    assert!(egress.used().attempts.iter().all(|attempt| matches!(attempt.verdict, NetVerdict::Refused(_))));
}

#[tokio::test]
async fn maps_failures_to_status_codes() {
    let port = echo().await;
    let limits = EgressLimits { connections: Some(1), ..LIMITS };
    let egress = egress(&["127.0.0.1:1", &format!("127.0.0.1:{port}")], limits);
    let answer = send_request(&egress, "CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 502 codebox: 127.0.0.1:1: "), "{answer}");
    let answer = send_request(&egress, &format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 403 codebox: ") && answer.contains("limit on connections"), "{answer}");
}

#[tokio::test]
async fn ignores_content_length_of_chunked_bodies() {
    let port = server(|mut stream| async move {
        let heard = request(&mut stream).await.to_ascii_lowercase();
        let reply = if heard.contains("content-length") { "cut" } else { "whole" };
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n{:x}\r\n{reply}\r\n0\r\n\r\n",
            reply.len()
        );
        let _ = stream.write_all(answer.as_bytes()).await;
    })
    .await;
    let egress = egress(&[&format!("localhost:{port}")], LIMITS);
    let text = format!(
        "POST http://localhost:{port}/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\
         Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    );
    let answer = send_request(&egress, &text).await;
    let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
    assert!(!head.to_ascii_lowercase().contains("content-length") && body.contains("whole"), "{answer}");
}

#[tokio::test]
async fn forwards_many_headers() {
    let port = server(|mut stream| async move {
        let heard = request(&mut stream).await.lines().filter(|line| line.starts_with("X-")).count();
        let many: String = (0..150).map(|number| format!("X-{number}: v\r\n")).collect();
        let answer =
            format!("HTTP/1.1 200 OK\r\n{many}Heard: {heard}\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        let _ = stream.write_all(answer.as_bytes()).await;
    })
    .await;
    let egress = egress(&[&format!("localhost:{port}")], LIMITS);
    let many: String = (0..150).map(|number| format!("X-{number}: v\r\n")).collect();
    let text = format!("GET http://localhost:{port}/ HTTP/1.1\r\nHost: localhost\r\n{many}Connection: close\r\n\r\n");
    let answer = send_request(&egress, &text).await;
    assert!(answer.contains("X-149: v\r\n") && answer.contains("Heard: 150") && answer.ends_with("ok"), "{answer}");
}
