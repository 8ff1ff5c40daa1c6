//! TLS without a connection: the guest transfers the encrypted bytes itself.

use codebox_egress::{TlsMachine, TlsOutput};

use super::reply::Reply;
use super::tls::NegotiatedTls;

/// Maximum bytes of one step, in both directions together. The answer is only slightly longer.
const MAX_STEP_BYTES: usize = 256 << 10;

/// Flag in a number of bytes: they are the last bytes to send.
const END: u32 = 1 << 31;

/// Status: the other side has ended its data.
const HAS_ENDED: u8 = 1;

/// Advances the machine by one step. The first `number` bytes are plaintext to send, and the others are ciphertext that
/// was received.
///
/// The answer is a status byte, the lengths of the received plaintext and of the negotiated parameters, these two, and
/// the ciphertext to send.
pub(super) fn process(machine: &mut TlsMachine, number: u32, bytes: &[u8]) -> Reply {
    if bytes.len() > MAX_STEP_BYTES {
        return Reply::failed("other", "EMSGSIZE", "too much data for one TLS operation");
    }
    let parts = usize::try_from(number & !END).ok().and_then(|plaintext| bytes.split_at_checked(plaintext));
    let Some((plaintext, ciphertext)) = parts else {
        return Reply::failed("other", "EINVAL", "malformed TLS operation");
    };
    let output = machine.process(plaintext, ciphertext).and_then(|mut output| {
        if number & END != 0 {
            machine.end();
            output.ciphertext.extend(machine.process(&[], &[])?.ciphertext);
        }
        Ok(output)
    });
    match output {
        Ok(output) => encode(output),
        Err(error) => Reply::from_egress(&error),
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
