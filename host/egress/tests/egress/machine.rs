//! TLS without a connection, against an in-memory server and against input that is not TLS.

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use codebox_egress::{EgressError, TlsFacts, TlsMachine, TlsOffer};
use proptest::prelude::*;
use tokio_rustls::rustls::{ServerConfig, ServerConnection};

use crate::tls::vouched_for;

const NAME: &str = "localhost";

/// Both sides of a TLS connection.
struct Pair {
    client: TlsMachine,
    server: ServerConnection,
}

impl Pair {
    fn new(config: &Arc<ServerConfig>, client: TlsMachine) -> Self {
        Self { client, server: ServerConnection::new(Arc::clone(config)).expect("it is sound") }
    }

    /// Passes the client's records to the server, and returns the server's records.
    fn answer(&mut self, mut sealed: &[u8]) -> Vec<u8> {
        while !sealed.is_empty() {
            self.server.read_tls(&mut sealed).expect("there is room");
            self.server.process_new_packets().expect("the client speaks TLS");
        }
        let mut said = Vec::new();
        while self.server.wants_write() {
            self.server.write_tls(&mut said).expect("a vector takes all");
        }
        said
    }

    fn shake(&mut self) -> Result<TlsFacts, EgressError> {
        let mut came = Vec::new();
        loop {
            let turned = self.client.turn(&[], &came)?;
            came = self.answer(&turned.sealed);
            if let Some(agreed) = turned.agreed {
                // Session tickets follow the handshake.
                self.client.turn(&[], &came)?;
                return Ok(agreed);
            }
            assert!(!came.is_empty(), "both wait for each other");
        }
    }
}

#[test]
fn both_sides_hear_each_other_and_the_end() {
    let (config, roots) = vouched_for(NAME);
    let client =
        TlsMachine::new(NAME, &roots, &TlsOffer { alpn: &["http/1.1"], ..TlsOffer::default() }).expect("a name");
    let mut pair = Pair::new(&config, client);
    let agreed = pair.shake().expect("it is vouched for");
    assert_eq!((agreed.version, agreed.alpn.as_deref()), ("TLSv1.3", Some(b"http/1.1".as_slice())));
    assert!(!agreed.certificate.is_empty());

    let long: Vec<u8> = (0..200_000_u32).map(|at| at.to_le_bytes()[0]).collect();
    let sealed = pair.client.turn(&long, &[]).expect("the handshake is over").sealed;
    let mut heard = vec![0; long.len()];
    let mut left = sealed.as_slice();
    let mut count = 0;
    while count < heard.len() {
        pair.server.read_tls(&mut left).expect("there is room");
        pair.server.process_new_packets().expect("it is TLS");
        count += pair.server.reader().read(&mut heard[count..]).unwrap_or(0);
    }
    assert!(heard == long, "the server heard something else");

    pair.server.writer().write_all(b"answer").expect("room");
    pair.server.send_close_notify();
    let said = pair.answer(&[]);
    let (first, rest) = said.split_at(10);
    let turned = pair.client.turn(&[], first).expect("it is a part");
    assert!(turned.heard.is_empty() && !turned.has_ended);
    let turned = pair.client.turn(&[], rest).expect("it is the rest");
    assert_eq!((turned.heard.as_slice(), turned.has_ended), (b"answer".as_slice(), true));
    assert!(pair.client.turn(&[], b"nobody hears this").expect("it is not looked at").has_ended);
    pair.client.end();
    let sealed = pair.client.turn(&[], &[]).expect("it may").sealed;
    pair.server.read_tls(&mut sealed.as_slice()).expect("room");
    assert!(pair.server.process_new_packets().expect("it is TLS").peer_has_closed());
}

#[test]
fn nobody_else_is_believed() {
    let (config, roots) = vouched_for("other.example");
    let (_, strange) = vouched_for(NAME);
    for (name, roots) in [(NAME, &roots), ("other.example", &strange)] {
        let mut pair = Pair::new(&config, TlsMachine::new(name, roots, &TlsOffer::default()).expect("a name"));
        let error = pair.shake().expect_err("nobody vouches for it");
        assert!(error.is_certificate(), "{error}");
        assert!(pair.client.turn(&[], &[]).is_err(), "it goes on after that");
    }
    assert!(TlsMachine::new("no name", &roots, &TlsOffer::default()).is_err());
}

#[test]
fn nothing_is_said_before_the_handshake_is_over() {
    let (_, roots) = vouched_for(NAME);
    let mut client = TlsMachine::new(NAME, &roots, &TlsOffer::default()).expect("a name");
    client.turn(b"secret", &[]).expect_err("there is nobody to say it to");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any input gives a result or an error, with little output.
    #[test]
    fn what_is_no_tls_is_refused(
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..600), 1..20),
        kind in 20u8..25,
        framed: bool,
    ) {
        let (_, roots) = vouched_for(NAME);
        let mut client = TlsMachine::new(NAME, &roots, &TlsOffer::default()).expect("a name");
        for piece in pieces {
            let length = u16::try_from(piece.len()).expect("it is short").to_be_bytes();
            let head = if framed { [&[kind, 3, 3], length.as_slice()].concat() } else { Vec::new() };
            let Ok(turned) = client.turn(&[], &[head, piece].concat()) else { break };
            prop_assert!(turned.heard.is_empty() && turned.agreed.is_none());
            prop_assert!(turned.sealed.len() < 4096);
        }
    }

    /// A client rejects modified records of a server, wherever the first record was modified.
    #[test]
    fn what_was_changed_on_the_way_is_refused(at: prop::sample::Index, by in 1u8.., in_handshake: bool) {
        let (config, roots) = vouched_for(NAME);
        let mut pair = Pair::new(&config, TlsMachine::new(NAME, &roots, &TlsOffer::default()).expect("a name"));
        let changed = |mut said: Vec<u8>| {
            // The header of a record is not authenticated, and its version is ignored.
            let length = usize::from(u16::from_be_bytes([said[3], said[4]]));
            said[5 + at.index(length)] ^= by;
            said
        };
        if in_handshake {
            let hello = pair.client.turn(&[], &[]).expect("it begins").sealed;
            let said = changed(pair.answer(&hello));
            let agreed = pair.client.turn(&[], &said).is_ok_and(|turned| turned.agreed.is_some());
            prop_assert!(!agreed);
        } else {
            pair.shake().expect("it is vouched for");
            pair.server.writer().write_all(b"answer").expect("room");
            let said = changed(pair.answer(&[]));
            prop_assert!(pair.client.turn(&[], &said).is_err());
        }
    }
}
