//! Connections through a broker, which is a task instead of a process here.

use std::sync::Arc;

use codebox_core::{NetVerdict, RefusalReason};
use codebox_egress::broker::{BrokerClient, channel, serve};
use codebox_egress::{Dialer, Egress, EgressError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinHandle;

use crate::support::{LIMITS, echo, listener, rules};

/// Network access by the rules `ours`, through a broker with the rules `theirs`.
fn egress_through_broker(ours: &[&str], theirs: &[&str]) -> (Egress, JoinHandle<std::io::Result<()>>) {
    let (near, far) = channel().expect("a channel");
    let serving = tokio::spawn(serve(far));
    let client = BrokerClient::configure(near.try_clone().expect("a descriptor"), &rules(theirs), Some(8))
        .expect("the broker accepts the rules");
    drop(client);
    let broker = BrokerClient::attach(near, &rules(ours));
    (Egress::new(rules(ours), LIMITS, Dialer::Other(Arc::new(broker))), serving)
}

#[tokio::test]
async fn passes_connections_and_ends_with_its_client() {
    let port = echo().await;
    let grant = format!("127.0.0.1:{port}");
    let (egress, serving) = egress_through_broker(&[&grant], &[&grant]);
    let exchange = || async {
        let mut connection = egress.connect("127.0.0.1", port).await.expect("it is granted");
        connection.write_all(b"hello").await.expect("the connection is open");
        connection.shutdown().await.expect("the connection is open");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.expect("it ends");
        answer
    };
    let answers = tokio::join!(exchange(), exchange(), exchange());
    assert_eq!(answers, ("hello".to_owned(), "hello".to_owned(), "hello".to_owned()));
    drop(egress);
    assert!(serving.await.expect("no panic").is_ok());
}

#[tokio::test]
async fn reports_connect_errors() {
    let (closed, port) = listener().await;
    drop(closed);
    let grant = format!("127.0.0.1:{port}");
    let (egress, _serving) = egress_through_broker(&[&grant], &[&grant]);
    let error = egress.connect("127.0.0.1", port).await.expect_err("the port is closed");
    assert!(
        matches!(&error, EgressError::Failed { source, .. } if source.kind() == std::io::ErrorKind::ConnectionRefused),
        "{error}"
    );
    assert!(egress.connect("other.invalid", port).await.is_err());
    let verdicts: Vec<_> = egress.used().attempts.into_iter().map(|attempt| attempt.verdict).collect();
    assert_eq!(verdicts[1], NetVerdict::Refused(RefusalReason::NotGranted));
}

#[tokio::test]
async fn enforces_grants_against_compromised_client() {
    let port = echo().await;
    let all = format!("127.0.0.1:{port}");
    let (egress, serving) = egress_through_broker(&[&all], &["127.0.0.1:1"]);
    let error = egress.connect("127.0.0.1", port).await.expect_err("the broker has another list");
    assert!(matches!(error, EgressError::Failed { .. }), "{error}");
    drop(egress);
    assert!(serving.await.expect("no panic").is_ok());
}

#[tokio::test]
async fn enforces_connection_limit() {
    let port = echo().await;
    let grant = format!("127.0.0.1:{port}");
    let (egress, serving) = egress_through_broker(&[&grant], &[&grant]);
    for _ in 0..8 {
        egress.connect("127.0.0.1", port).await.expect("it is granted");
    }
    assert!(egress.connect("127.0.0.1", port).await.is_err());
    assert!(serving.await.expect("no panic").is_err());
}
