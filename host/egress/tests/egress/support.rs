//! Network access and servers for the tests.

use std::time::Duration;

use codebox_core::NetRules;
use codebox_egress::{Dialer, Egress, EgressLimits};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

pub const LIMITS: EgressLimits = EgressLimits { bytes: None, connections: None, connect: Duration::from_secs(10) };

pub fn rules(grants: &[&str]) -> NetRules {
    NetRules(grants.iter().map(|text| text.parse().expect("a grant")).collect())
}

pub fn egress(grants: &[&str], limits: EgressLimits) -> Egress {
    Egress::new(rules(grants), limits, Dialer::Direct)
}

pub async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let port = listener.local_addr().expect("the listener is bound").port();
    (listener, port)
}

/// Serves every connection with `serve`.
pub async fn server<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> u16
where
    F: Future<Output = ()> + Send + 'static,
{
    let (listener, port) = listener().await;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    port
}

/// Sends all received bytes back.
pub async fn echo() -> u16 {
    server(|mut stream| async move {
        let (mut from, mut to) = stream.split();
        let _ = tokio::io::copy(&mut from, &mut to).await;
        let _ = to.shutdown().await;
    })
    .await
}

/// Reads the head of a request and the body of its content length.
pub async fn request(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.expect("a request");
        all.extend(&buffer[..count]);
        let text = String::from_utf8_lossy(&all).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.to_ascii_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) || count == 0 {
            return text;
        }
    }
}
