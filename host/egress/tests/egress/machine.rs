//! TLS without a connection, against an in-memory server and against input that is not TLS.

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use codebox_egress::{EgressError, TlsFacts, TlsMachine, TlsOffer};
use proptest::prelude::*;
use tokio_rustls::rustls::{ServerConfig, ServerConnection};

use crate::tls::server_config;

const NAME: &str = "localhost";

/// Both sides of a TLS connection.
struct Pair {
    client: TlsMachine,
    server: ServerConnection,
}

impl Pair {
    fn new(config: &Arc<ServerConfig>, client: TlsMachine) -> Self {
        Self { client, server: ServerConnection::new(Arc::clone(config)).expect("the configuration is valid") }
    }

    /// Passes the client's records to the server, and returns the server's records.
    fn answer(&mut self, mut ciphertext: &[u8]) -> Vec<u8> {
        while !ciphertext.is_empty() {
            self.server.read_tls(&mut ciphertext).expect("the buffer has space");
            self.server.process_new_packets().expect("the client sends valid TLS");
        }
        let mut records = Vec::new();
        while self.server.wants_write() {
            self.server.write_tls(&mut records).expect("writing to a vector succeeds");
        }
        records
    }

    fn handshake(&mut self) -> Result<TlsFacts, EgressError> {
        let mut incoming = Vec::new();
        loop {
            let output = self.client.process(&[], &incoming)?;
            incoming = self.answer(&output.ciphertext);
            if let Some(negotiated) = output.negotiated {
                // Session tickets follow the handshake.
                self.client.process(&[], &incoming)?;
                return Ok(negotiated);
            }
            assert!(!incoming.is_empty(), "both sides wait for data");
        }
    }
}

#[test]
fn exchanges_data_and_close() {
    let (config, roots) = server_config(NAME);
    let client =
        TlsMachine::new(NAME, &roots, &TlsOffer { alpn: &["http/1.1"], ..TlsOffer::default() }).expect("a name");
    let mut pair = Pair::new(&config, client);
    let negotiated = pair.handshake().expect("the certificate is trusted");
    assert_eq!((negotiated.version, negotiated.alpn.as_deref()), ("TLSv1.3", Some(b"http/1.1".as_slice())));
    assert!(!negotiated.certificate.is_empty());

    let long: Vec<u8> = (0..200_000_u32).map(|at| at.to_le_bytes()[0]).collect();
    let ciphertext = pair.client.process(&long, &[]).expect("the handshake is over").ciphertext;
    let mut plaintext = vec![0; long.len()];
    let mut left = ciphertext.as_slice();
    let mut count = 0;
    while count < plaintext.len() {
        pair.server.read_tls(&mut left).expect("the buffer has space");
        pair.server.process_new_packets().expect("it is TLS");
        count += pair.server.reader().read(&mut plaintext[count..]).unwrap_or(0);
    }
    assert!(plaintext == long, "the server received other data");

    pair.server.writer().write_all(b"answer").expect("the buffer has space");
    pair.server.send_close_notify();
    let records = pair.answer(&[]);
    let (first, rest) = records.split_at(10);
    let output = pair.client.process(&[], first).expect("a partial record is accepted");
    assert!(output.plaintext.is_empty() && !output.peer_closed);
    let output = pair.client.process(&[], rest).expect("the rest of the record is accepted");
    assert_eq!((output.plaintext.as_slice(), output.peer_closed), (b"answer".as_slice(), true));
    assert!(pair.client.process(&[], b"ignored").expect("data after the close is ignored").peer_closed);
    pair.client.end();
    let ciphertext = pair.client.process(&[], &[]).expect("the client can close").ciphertext;
    pair.server.read_tls(&mut ciphertext.as_slice()).expect("the buffer has space");
    assert!(pair.server.process_new_packets().expect("it is TLS").peer_has_closed());
}

#[test]
fn rejects_untrusted_certificates() {
    let (config, roots) = server_config("other.example");
    let (_, other_roots) = server_config(NAME);
    for (name, roots) in [(NAME, &roots), ("other.example", &other_roots)] {
        let mut pair = Pair::new(&config, TlsMachine::new(name, roots, &TlsOffer::default()).expect("a name"));
        let error = pair.handshake().expect_err("the certificate is not trusted");
        assert!(error.is_certificate(), "{error}");
        assert!(pair.client.process(&[], &[]).is_err(), "the client continued after the failure");
    }
    assert!(TlsMachine::new("no name", &roots, &TlsOffer::default()).is_err());
}

#[test]
fn rejects_data_before_handshake() {
    let (_, roots) = server_config(NAME);
    let mut client = TlsMachine::new(NAME, &roots, &TlsOffer::default()).expect("a name");
    client.process(b"secret", &[]).expect_err("the handshake is not complete");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any input gives a result or an error, with little output.
    #[test]
    fn rejects_input_that_is_not_tls(
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..600), 1..20),
        kind in 20u8..25,
        framed: bool,
    ) {
        let (_, roots) = server_config(NAME);
        let mut client = TlsMachine::new(NAME, &roots, &TlsOffer::default()).expect("a name");
        for piece in pieces {
            let length = u16::try_from(piece.len()).expect("the piece is shorter than 64 KiB").to_be_bytes();
            let head = if framed { [&[kind, 3, 3], length.as_slice()].concat() } else { Vec::new() };
            let Ok(output) = client.process(&[], &[head, piece].concat()) else { break };
            prop_assert!(output.plaintext.is_empty() && output.negotiated.is_none());
            prop_assert!(output.ciphertext.len() < 4096);
        }
    }

    /// A client rejects modified records of a server, wherever the first record was modified.
    #[test]
    fn rejects_modified_records(at: prop::sample::Index, by in 1u8.., in_handshake: bool) {
        let (config, roots) = server_config(NAME);
        let mut pair = Pair::new(&config, TlsMachine::new(NAME, &roots, &TlsOffer::default()).expect("a name"));
        let changed = |mut records: Vec<u8>| {
            // The header of a record is not authenticated, and its version is ignored.
            let length = usize::from(u16::from_be_bytes([records[3], records[4]]));
            records[5 + at.index(length)] ^= by;
            records
        };
        if in_handshake {
            let hello = pair.client.process(&[], &[]).expect("the handshake starts").ciphertext;
            let records = changed(pair.answer(&hello));
            let negotiated = pair.client.process(&[], &records).is_ok_and(|output| output.negotiated.is_some());
            prop_assert!(!negotiated);
        } else {
            pair.handshake().expect("the certificate is trusted");
            pair.server.writer().write_all(b"answer").expect("the buffer has space");
            let records = changed(pair.answer(&[]));
            prop_assert!(pair.client.process(&[], &records).is_err());
        }
    }
}
