use std::fmt;
use std::io::{self, Read as _, Write as _};

use tokio_rustls::rustls::ClientConnection;

use crate::error::EgressError;
use crate::roots::TlsRoots;
use crate::tls::{TlsFacts, TlsOffer, terms};

/// The client side of TLS without a transport: it encrypts outgoing data and decrypts incoming records.
///
/// It verifies certificates as a [`TlsConnection`](crate::TlsConnection) does, under the name that it was created with.
/// Between calls it buffers at most one incomplete message of up to 64 KiB.
pub struct TlsMachine {
    name: String,
    connection: ClientConnection,
    is_agreed: bool,
}

/// The result of one turn.
#[derive(Debug, Default)]
pub struct Turned {
    /// The decrypted data from the other side.
    pub heard: Vec<u8>,
    /// The encrypted records to send to the other side.
    pub sealed: Vec<u8>,
    /// The negotiated parameters, in the turn that completed the handshake.
    pub agreed: Option<TlsFacts>,
    /// True if the other side has closed its direction.
    pub has_ended: bool,
}

impl fmt::Debug for TlsMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsMachine").field("name", &self.name).finish_non_exhaustive()
    }
}

impl TlsMachine {
    /// Creates the client side of a connection to `server_name`, with the parameters of `offer`. Its first turn returns
    /// the start of the handshake.
    ///
    /// # Errors
    /// An error if the name is invalid.
    pub fn new(server_name: &str, roots: &TlsRoots, offer: &TlsOffer<'_>) -> Result<Self, EgressError> {
        let made = terms(server_name, roots, offer)
            .and_then(|(server, config)| ClientConnection::new(config, server).map_err(io::Error::other));
        match made {
            Ok(connection) => Ok(Self { name: server_name.to_owned(), connection, is_agreed: false }),
            Err(source) => Err(EgressError::Tls { host: server_name.to_owned(), source }),
        }
    }

    /// Decrypts the records `came` from the other side, and encrypts the data `said` to it. Data requires a completed
    /// handshake.
    ///
    /// # Errors
    /// An error if the other side cannot be authenticated or violates the protocol. All later calls fail as well. Data
    /// that was received before the error is returned first.
    pub fn turn(&mut self, said: &[u8], came: &[u8]) -> Result<Turned, EgressError> {
        let mut turned = Turned::default();
        self.open(came, &mut turned)
            .and_then(|()| self.seal(said, &mut turned))
            .map_err(|source| EgressError::Tls { host: self.name.clone(), source })?;
        Ok(turned)
    }

    /// Closes the outgoing direction. The next turn returns the closing alert.
    pub fn end(&mut self) {
        self.connection.send_close_notify();
    }

    fn open(&mut self, mut came: &[u8], turned: &mut Turned) -> io::Result<()> {
        loop {
            // Records after the other side's closing alert are ignored.
            if !came.is_empty() && self.connection.read_tls(&mut came)? == 0 {
                came = &[];
            }
            let opened = self.connection.process_new_packets();
            match self.connection.reader().read_to_end(&mut turned.heard) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
            match opened {
                Ok(state) => turned.has_ended = state.peer_has_closed(),
                Err(_) if !turned.heard.is_empty() => break,
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
            if came.is_empty() {
                break;
            }
        }
        if !self.is_agreed && !self.connection.is_handshaking() {
            self.is_agreed = true;
            turned.agreed = Some(TlsFacts::of(&self.connection));
        }
        Ok(())
    }

    fn seal(&mut self, mut said: &[u8], turned: &mut Turned) -> io::Result<()> {
        if !said.is_empty() && !self.is_agreed {
            return Err(io::Error::other("the handshake is not complete"));
        }
        loop {
            if !said.is_empty() {
                let taken = self.connection.writer().write(said)?;
                said = &said[taken..];
            }
            while self.connection.wants_write() {
                self.connection.write_tls(&mut turned.sealed)?;
            }
            if said.is_empty() {
                return Ok(());
            }
        }
    }
}
