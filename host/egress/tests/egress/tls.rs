use std::sync::Arc;

use codebox_core::NetVerdict;
use codebox_egress::{EgressError, TlsOffer, TlsRoots, TlsVersions};
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::support::{LIMITS, egress, server};

/// Returns the TLS configuration of a server with a certificate for this name, and the roots that verify it.
pub fn server_config(name: &str) -> (Arc<ServerConfig>, TlsRoots) {
    let mut authority = CertificateParams::new(Vec::new()).expect("no names");
    // A certificate whose subject equals its issuer would count as self-signed.
    authority.distinguished_name.push(rcgen::DnType::CommonName, "an authority");
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority =
        CertifiedIssuer::self_signed(authority, KeyPair::generate().expect("a key")).expect("a certificate");
    let key = KeyPair::generate().expect("a key");
    let own = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let own = own.signed_by(&key, &authority).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider supports its default versions")
        .with_no_client_auth()
        .with_single_cert(vec![own.der().clone()], key)
        .expect("the key matches the certificate");
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), authority.pem()).expect("the file is written");
    (Arc::new(config), TlsRoots::load(Some(file.path()), None).expect("the file contains a certificate"))
}

/// Starts a server with a certificate for this name, and returns the roots that verify it.
async fn start_tls_server(name: &str) -> (u16, TlsRoots) {
    let (config, roots) = server_config(name);
    let acceptor = TlsAcceptor::from(config);
    let port = server(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            if let Ok(mut stream) = acceptor.accept(stream).await {
                let _ = stream.write_all(b"hello").await;
                let _ = stream.shutdown().await;
            }
        }
    })
    .await;
    (port, roots)
}

#[tokio::test]
async fn connects_to_trusted_host() {
    let (port, roots) = start_tls_server("localhost").await;
    let egress = egress(&[&format!("localhost:{port}")], LIMITS).with_roots(roots);
    let offer = TlsOffer { alpn: &["h2", "http/1.1"], ..TlsOffer::default() };
    let mut connection = egress.connect_tls("localhost", port, &offer).await.expect("the certificate is trusted");
    assert_eq!(connection.facts().alpn.as_deref(), Some(b"http/1.1".as_slice()));
    let mut greeting = String::new();
    connection.read_to_string(&mut greeting).await.expect("the connection is closed");
    assert_eq!(greeting, "hello");
    assert!(egress.used().received > 5, "the bytes of TLS are not counted");
}

#[tokio::test]
async fn negotiates_offered_version() {
    let (port, roots) = start_tls_server("localhost").await;
    let egress = egress(&[&format!("localhost:{port}")], LIMITS).with_roots(roots);
    for (versions, expected) in
        [(TlsVersions::OnlyTls12, "TLSv1.2"), (TlsVersions::OnlyTls13, "TLSv1.3"), (TlsVersions::All, "TLSv1.3")]
    {
        let offer = TlsOffer { versions, ..TlsOffer::default() };
        let connection = egress.connect_tls("localhost", port, &offer).await.expect("the certificate is trusted");
        assert_eq!(connection.facts().version, expected);
    }
}

#[tokio::test]
async fn rejects_untrusted_hosts() {
    let (port, roots) = start_tls_server("other.example").await;
    let named_otherwise = egress(&[&format!("localhost:{port}")], LIMITS).with_roots(roots);
    let (_, other_roots) = start_tls_server("localhost").await;
    let untrusted = egress(&[&format!("localhost:{port}")], LIMITS).with_roots(other_roots);
    let without = egress(&[&format!("localhost:{port}")], LIMITS);
    for egress in [&named_otherwise, &untrusted, &without] {
        let error = egress
            .connect_tls("localhost", port, &TlsOffer::default())
            .await
            .expect_err("the certificate is not trusted");
        assert!(matches!(error, EgressError::Tls { .. }), "{error}");
    }
    let verdict = &named_otherwise.used().attempts[0].verdict;
    assert!(matches!(verdict, NetVerdict::Failed(why) if why.starts_with("TLS: ")), "{verdict:?}");
}

#[test]
fn reports_file_without_certificates() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let error = TlsRoots::load(Some(file.path()), None).expect_err("it is empty").to_string();
    assert!(error.contains(&file.path().display().to_string()), "{error}");
}
