use std::fmt;
use std::io::{self, Read as _, Write as _};

use tokio_rustls::rustls::ClientConnection;

use crate::error::EgressError;
use crate::roots::TlsRoots;
use crate::tls::{TlsFacts, TlsOffer, terms};

/// A client's side of TLS whose bytes somebody else carries: what it said comes out sealed, what came is opened.
///
/// It verifies as a [`TlsConnection`](crate::TlsConnection) does, in the name that it was made with. Between turns it
/// keeps no more than what has come of one message, at most 64 KiB.
pub struct TlsMachine {
    name: String,
    connection: ClientConnection,
    is_agreed: bool,
}

/// What came of one turn.
#[derive(Debug, Default)]
pub struct Turned {
    /// What the other side said.
    pub heard: Vec<u8>,
    /// What is to be carried to the other side.
    pub sealed: Vec<u8>,
    /// What was agreed on, in the turn that ended the handshake.
    pub agreed: Option<TlsFacts>,
    /// Whether the other side has ended what it says.
    pub has_ended: bool,
}

impl fmt::Debug for TlsMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsMachine").field("name", &self.name).finish_non_exhaustive()
    }
}

impl TlsMachine {
    /// One that will speak with a host of this name, as it is `offer`ed. Its first turn has what begins the handshake.
    ///
    /// # Errors
    /// When the name is none.
    pub fn new(server_name: &str, roots: &TlsRoots, offer: &TlsOffer<'_>) -> Result<Self, EgressError> {
        let made = terms(server_name, roots, offer)
            .and_then(|(server, config)| ClientConnection::new(config, server).map_err(io::Error::other));
        match made {
            Ok(connection) => Ok(Self { name: server_name.to_owned(), connection, is_agreed: false }),
            Err(source) => Err(EgressError::Tls { host: server_name.to_owned(), source }),
        }
    }

    /// Opens what `came` of the other side, and seals what is to be `said` to it, which takes that the handshake is over.
    ///
    /// # Errors
    /// When the other side is not whom it has to be, or does not speak TLS as it has to; from then on always. What it said
    /// before that is handed over first.
    pub fn turn(&mut self, said: &[u8], came: &[u8]) -> Result<Turned, EgressError> {
        let mut turned = Turned::default();
        self.open(came, &mut turned)
            .and_then(|()| self.seal(said, &mut turned))
            .map_err(|source| EgressError::Tls { host: self.name.clone(), source })?;
        Ok(turned)
    }

    /// Ends what is said; the next turn has what tells the other side.
    pub fn end(&mut self) {
        self.connection.send_close_notify();
    }

    fn open(&mut self, mut came: &[u8], turned: &mut Turned) -> io::Result<()> {
        loop {
            // After the other side's end, nothing is taken any more.
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
            return Err(io::Error::other("the handshake is not over"));
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
