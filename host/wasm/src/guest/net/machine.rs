//! TLS without a connection: the guest transfers the encrypted bytes itself.

use std::borrow::Cow;

use codebox_egress::{EgressError, TlsMachine, TlsOutput};

use super::reply::Reply;
use super::secrets::SecretFilter;
use super::tls::NegotiatedTls;

/// Maximum bytes of one step, in both directions together. The answer is only slightly longer.
const MAX_STEP_BYTES: usize = 256 << 10;

/// Flag in a number of bytes: they are the last bytes to send.
const END: u32 = 1 << 31;

/// Status: the other side has ended its data.
const HAS_ENDED: u8 = 1;

/// A machine, and the secrets of its other side.
pub(super) struct Machine {
    tls: TlsMachine,
    secrets: Option<SecretFilter>,
    /// Received data that may be the beginning of a value, until the next data or the end.
    held: Vec<u8>,
}

impl Machine {
    pub(super) fn new(tls: TlsMachine, secrets: Option<SecretFilter>) -> Self {
        Self { tls, secrets, held: Vec::new() }
    }

    /// Advances the machine by one step. The first `number` bytes are plaintext to send, and the others are ciphertext that
    /// was received.
    ///
    /// The answer is a status byte, the lengths of the received plaintext and of the negotiated parameters, these two, and
    /// the ciphertext to send.
    pub(super) fn process(&mut self, number: u32, bytes: &[u8]) -> Reply {
        if bytes.len() > MAX_STEP_BYTES {
            return Reply::failed("other", "EMSGSIZE", "too much data for one TLS operation");
        }
        let parts = usize::try_from(number & !END).ok().and_then(|plaintext| bytes.split_at_checked(plaintext));
        let Some((plaintext, ciphertext)) = parts else {
            return Reply::failed("other", "EINVAL", "malformed TLS operation");
        };
        let is_last = number & END != 0;
        match self.advance(plaintext, ciphertext, is_last) {
            Ok(output) => encode(output),
            Err(reply) => reply,
        }
    }

    fn advance(&mut self, plaintext: &[u8], ciphertext: &[u8], is_last: bool) -> Result<TlsOutput, Reply> {
        let failed = |error: EgressError| Reply::from_egress(&error);
        let mut plaintext = Cow::Borrowed(plaintext);
        if let Some(secrets) = &mut self.secrets {
            let mut request = secrets.requests.push(&plaintext).map_err(|error| Reply::from_secret(&error))?;
            if is_last {
                request.extend(secrets.requests.finish());
            }
            plaintext = Cow::Owned(request);
        }
        let mut output = self.tls.process(&plaintext, ciphertext).map_err(failed)?;
        if is_last {
            self.tls.end();
            output.ciphertext.extend(self.tls.process(&[], &[]).map_err(failed)?.ciphertext);
        }
        if let Some(secrets) = &mut self.secrets {
            self.held.append(&mut output.plaintext);
            output.plaintext = match is_last || output.peer_closed {
                true => secrets.answers.take_all(&mut self.held),
                false => secrets.answers.take_complete(&mut self.held),
            };
        }
        Ok(output)
    }
}

fn encode(output: TlsOutput) -> Reply {
    let TlsOutput { plaintext, ciphertext, negotiated, peer_closed } = output;
    let negotiated = negotiated.map(|facts| NegotiatedTls::from_facts(facts).encode()).unwrap_or_default();
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
    let mut answer = Vec::with_capacity(9 + plaintext.len() + negotiated.len() + ciphertext.len());
    answer.push(if peer_closed { HAS_ENDED } else { 0 });
    answer.extend(length(&plaintext));
    answer.extend(length(&negotiated));
    answer.extend([plaintext, negotiated, ciphertext].concat());
    Reply::Done(answer)
}
