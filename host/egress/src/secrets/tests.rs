use codebox_core::SecretValue;

use super::*;

fn grant(name: &str, value: &str, hosts: &[&str]) -> SecretGrant {
    SecretGrant {
        name: SecretName::new(name).expect("a name"),
        value: Some(SecretValue::new(value).expect("a value")),
        hosts: hosts.iter().map(|host| host.parse().expect("a host")).collect(),
    }
}

fn secrets() -> Secrets {
    Secrets::new(&[
        grant("TOKEN", "sk-12345678", &["api.example.org", "localhost"]),
        grant("TOKEN2", "pw-abcdefgh", &["api.example.org"]),
        grant("OTHER", "other-value", &["other.org"]),
    ])
}

fn rewriter(host: &str, transport: Transport) -> RequestRewriter {
    RequestRewriter::new(secrets().for_host(host, transport).expect("it has secrets"))
}

fn sent(request: &str) -> Result<String, SecretError> {
    let mut whole = rewriter("api.example.org", Transport::Tls);
    let expected = whole.push(request.as_bytes());
    let mut piecewise = rewriter("api.example.org", Transport::Tls);
    let pieces: Result<Vec<_>, _> = request.as_bytes().chunks(1).map(|piece| piecewise.push(piece)).collect();
    assert_eq!(pieces.map(|pieces| pieces.concat()), expected, "the division into pieces does not matter");
    expected.map(|bytes| String::from_utf8(bytes).expect("it is text"))
}

const HOST: &str = "Host: api.example.org\r\n";

#[test]
fn placeholders_in_headers_are_replaced() {
    let request = format!(
        "POST /codebox-secret.TOKEN. HTTP/1.1\r\n{HOST}Authorization:Bearer codebox-secret.TOKEN.\r\n\
         X-Both: codebox-secret.TOKEN2.codebox-secret.TOKEN. codebox-secret.OTHER.\r\nContent-Length: 21\r\n\r\n\
         codebox-secret.TOKEN.GET / HTTP/1.1\r\n{HOST}A: codebox-secret.TOKEN2.\r\n\r\n"
    );
    let expected = format!(
        "POST /codebox-secret.TOKEN. HTTP/1.1\r\n{HOST}Authorization: Bearer sk-12345678\r\n\
         X-Both: pw-abcdefghsk-12345678 codebox-secret.OTHER.\r\nContent-Length: 21\r\n\r\n\
         codebox-secret.TOKEN.GET / HTTP/1.1\r\n{HOST}A: pw-abcdefgh\r\n\r\n"
    );
    assert_eq!(sent(&request), Ok(expected));
}

#[test]
fn basic_credentials_are_decoded() {
    let encode = |text: &str| STANDARD.encode(text);
    let request = |value: &str| format!("GET / HTTP/1.1\r\n{HOST}Authorization: {value}\r\n\r\n");
    let given = request(&format!("basic  {}", encode("me:codebox-secret.TOKEN.")));
    assert_eq!(sent(&given), Ok(request(&format!("basic  {}", encode("me:sk-12345678")))));
    for kept in
        [format!("Basic {}", encode("me:x")), "Basic !".to_owned(), format!("X {}", encode("codebox-secret.TOKEN."))]
    {
        assert_eq!(sent(&request(&kept)), Ok(request(&kept)));
    }
}

/// A server that does not read a body would take the next head for the body of a request in it.
#[test]
fn a_body_that_servers_may_ignore_is_the_last_of_its_connection() {
    let next = format!("GET / HTTP/1.1\r\n{HOST}A: codebox-secret.TOKEN.\r\n\r\n");
    for head in [
        format!("GET / HTTP/1.1\r\n{HOST}Content-Length: 3\r\n"),
        format!("DELETE / HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n"),
        format!("POST / HTTP/1.1\r\n{HOST}Expect: 100-continue\r\nContent-Length: 3\r\n"),
    ] {
        let rest = format!("abc{next}");
        let expected = format!("{head}Connection: close\r\n\r\n{rest}");
        assert_eq!(sent(&format!("{head}connection: keep-alive\r\n\r\n{rest}")), Ok(expected));
    }
    let body = "15;x=y\r\ncodebox-secret.TOKEN.\r\n0\r\nA: codebox-secret.TOKEN.\r\n\r\n";
    for method in ["POST", "PUT", "GET"] {
        let head = format!("{method} / HTTP/1.1\r\n{HOST}Transfer-Encoding: Chunked\r\n");
        let rest = format!("{body}{next}");
        assert_eq!(sent(&format!("{head}\r\n{rest}")), Ok(format!("{head}Connection: close\r\n\r\n{rest}")));
    }
    let old = format!("POST / HTTP/1.0\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{next}");
    assert_eq!(sent(&old), Ok(old), "no value is put in");
    let spelling = format!("GET / HTTP/1.1\nHost:api.example.org\nA: b\n\n{next}");
    let expected =
        format!("GET / HTTP/1.1\r\n{HOST}A: b\r\n\r\n{}", next.replace("codebox-secret.TOKEN.", "sk-12345678"));
    assert_eq!(sent(&spelling), Ok(expected));
}

#[test]
fn other_protocols_are_passed_on() {
    for data in [
        "A001 LOGIN me codebox-secret.TOKE\r\n",
        "\u{1}binary\0",
        "GET / HTTP/2.0\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "CONNECT a.org:443 HTTP/1.1\r\nHost: a.org\r\n\r\n\u{1}codebox-secret.TOKEN.",
    ] {
        assert_eq!(sent(data).as_deref(), Ok(data));
    }
    let upgrade = format!("GET / HTTP/1.1\r\n{HOST}Upgrade: websocket\r\nA: codebox-secret.TOKEN.\r\n\r\n");
    let frames = format!("\u{1}codebox-secret.TOKEN.{upgrade}");
    let expected = format!("{}{frames}", upgrade.replace("codebox-secret.TOKEN.", "sk-12345678"));
    assert_eq!(sent(&format!("{upgrade}{frames}")), Ok(expected));
    let mut incomplete = rewriter("api.example.org", Transport::Tls);
    assert_eq!(incomplete.push(b"QUIT"), Ok(Vec::new()));
    assert_eq!(incomplete.finish(), b"QUIT");
}

#[test]
fn requests_that_are_ambiguous_or_for_other_hosts_are_refused() {
    let header = "A: codebox-secret.TOKEN.\r\n";
    let name = || SecretName::new("TOKEN").expect("a name");
    for other in [
        format!("GET / HTTP/1.1\r\nHost: evil.org\r\n{header}\r\n"),
        format!("GET / HTTP/1.1\r\n{HOST}Host: evil.org\r\n{header}\r\n"),
        format!("GET / HTTP/1.1\r\n{header}\r\n"),
        format!("GET https://evil.org/ HTTP/1.1\r\n{HOST}{header}\r\n"),
    ] {
        assert_eq!(sent(&other), Err(SecretError::OtherHost(name())), "{other}");
    }
    for ambiguous in [
        format!("GET / HTTP/1.1\r\n{HOST}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n{header}\r\n"),
        format!("GET / HTTP/1.1\r\n{HOST}Content-Length: 1\r\nContent-Length: 2\r\n{header}\r\n"),
        format!("GET / HTTP/1.1\r\n{HOST}Content-Length: +1\r\n{header}\r\n"),
        format!("GET / HTTP/1.1\r\n{HOST}Transfer-Encoding: gzip, chunked\r\n{header}\r\n"),
        format!("CONNECT a.org:443 HTTP/1.1\r\n{HOST}{header}\r\n"),
    ] {
        assert!(matches!(sent(&ambiguous), Err(SecretError::Malformed(..))), "{ambiguous}");
    }
    let mut refused = rewriter("api.example.org", Transport::Tls);
    assert!(refused.push(format!("GET / HTTP/1.1\r\n{header}\r\n").as_bytes()).is_err());
    assert!(refused.push(b"GET / HTTP/1.1\r\n").is_err(), "the connection cannot be used any more");
}

#[test]
fn a_head_is_bounded() {
    let long = format!("GET / HTTP/1.1\r\n{HOST}A: codebox-secret.TOKEN.\r\nB: {}", "x".repeat(70_000));
    let mut rewriter = rewriter("api.example.org", Transport::Tls);
    assert!(matches!(rewriter.push(long.as_bytes()), Err(SecretError::Malformed(..))));
}

#[test]
fn values_are_sent_to_their_hosts_over_tls() {
    let request = |host: &str| format!("GET / HTTP/1.1\r\nHost: {host}:8080\r\nA: codebox-secret.TOKEN.\r\n\r\n");
    assert!(secrets().for_host("example.org", Transport::Tls).is_none());
    let plain = rewriter("api.example.org", Transport::Plain).push(request("api.example.org").as_bytes());
    assert_eq!(plain, Err(SecretError::Plain(SecretName::new("TOKEN").expect("a name"))));
    let local = rewriter("localhost", Transport::Plain).push(request("LOCALHOST").as_bytes());
    assert!(
        local.is_ok_and(|sent| String::from_utf8_lossy(&sent).contains("sk-12345678")),
        "it does not leave the machine"
    );
    let shown = format!("{:?} {:?}", secrets(), rewriter("localhost", Transport::Tls));
    assert!(!shown.contains("sk-"), "{shown}");
}
