use std::fmt;
use std::io::{self, Read as _, Write as _};

use tokio_rustls::rustls::ClientConnection;

use crate::error::EgressError;
use crate::roots::TlsRoots;
use crate::tls::{TlsFacts, TlsOffer, client_config};

/// The client side of TLS without a transport: it encrypts outgoing data and decrypts incoming records.
///
/// It verifies certificates as a [`TlsConnection`](crate::TlsConnection) does, under the name that it was created with.
/// Between calls it buffers at most one incomplete message of up to 64 KiB.
pub struct TlsMachine {
    name: String,
    connection: ClientConnection,
    is_negotiated: bool,
}

/// The result of one turn.
#[derive(Debug, Default)]
pub struct TlsOutput {
    /// The decrypted data from the other side.
    pub plaintext: Vec<u8>,
    /// The encrypted records to send to the other side.
    pub ciphertext: Vec<u8>,
    /// The negotiated parameters, in the turn that completed the handshake.
    pub negotiated: Option<TlsFacts>,
    /// True if the other side has closed its direction.
    pub peer_closed: bool,
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
        let made = client_config(server_name, roots, offer)
            .and_then(|(server, config)| ClientConnection::new(config, server).map_err(io::Error::other));
        match made {
            Ok(connection) => Ok(Self { name: server_name.to_owned(), connection, is_negotiated: false }),
            Err(source) => Err(EgressError::Tls { host: server_name.to_owned(), source }),
        }
    }

    /// Decrypts the records `ciphertext` from the other side, and encrypts the data `plaintext` to it. Data requires a completed
    /// handshake.
    ///
    /// # Errors
    /// An error if the other side cannot be authenticated or violates the protocol. All later calls fail as well. Data
    /// that was received before the error is returned first.
    pub fn process(&mut self, plaintext: &[u8], ciphertext: &[u8]) -> Result<TlsOutput, EgressError> {
        let mut output = TlsOutput::default();
        self.decrypt(ciphertext, &mut output)
            .and_then(|()| self.encrypt(plaintext, &mut output))
            .map_err(|source| EgressError::Tls { host: self.name.clone(), source })?;
        Ok(output)
    }

    /// Closes the outgoing direction. The next turn returns the closing alert.
    pub fn end(&mut self) {
        self.connection.send_close_notify();
    }

    fn decrypt(&mut self, mut ciphertext: &[u8], output: &mut TlsOutput) -> io::Result<()> {
        loop {
            // Records after the other side's closing alert are ignored.
            if !ciphertext.is_empty() && self.connection.read_tls(&mut ciphertext)? == 0 {
                ciphertext = &[];
            }
            let processed = self.connection.process_new_packets();
            match self.connection.reader().read_to_end(&mut output.plaintext) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
            match processed {
                Ok(state) => output.peer_closed = state.peer_has_closed(),
                Err(_) if !output.plaintext.is_empty() => break,
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
            if ciphertext.is_empty() {
                break;
            }
        }
        if !self.is_negotiated && !self.connection.is_handshaking() {
            self.is_negotiated = true;
            output.negotiated = Some(TlsFacts::of(&self.connection));
        }
        Ok(())
    }

    fn encrypt(&mut self, mut plaintext: &[u8], output: &mut TlsOutput) -> io::Result<()> {
        if !plaintext.is_empty() && !self.is_negotiated {
            return Err(io::Error::other("the handshake is not complete"));
        }
        loop {
            if !plaintext.is_empty() {
                let written = self.connection.writer().write(plaintext)?;
                plaintext = &plaintext[written..];
            }
            while self.connection.wants_write() {
                self.connection.write_tls(&mut output.ciphertext)?;
            }
            if plaintext.is_empty() {
                return Ok(());
            }
        }
    }
}
