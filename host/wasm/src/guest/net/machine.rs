//! TLS without a connection: the guest transfers the encrypted bytes itself.

use codebox_egress::{TlsMachine, Turned};

use super::reply::Reply;
use super::tls::GotTls;

/// Maximum bytes of one step, in both directions together. The answer is only slightly longer.
const MOST: usize = 256 << 10;

/// Flag in a number of bytes: they are the last bytes to send.
const END: u32 = 1 << 31;

/// Status: the other side has ended its data.
const HAS_ENDED: u8 = 1;

/// Advances the machine by one step. The first `number` bytes are plaintext to send, and the others are ciphertext that
/// was received.
///
/// The answer is a status byte, the lengths of the received plaintext and of the negotiated parameters, these two, and
/// the ciphertext to send.
pub(super) fn turn(machine: &mut TlsMachine, number: u32, bytes: &[u8]) -> Reply {
    if bytes.len() > MOST {
        return Reply::failed("other", "EMSGSIZE", "too much data for one TLS operation");
    }
    let parts = usize::try_from(number & !END).ok().and_then(|said| bytes.split_at_checked(said));
    let Some((said, came)) = parts else { return Reply::failed("other", "EINVAL", "malformed TLS operation") };
    let turned = machine.turn(said, came).and_then(|mut turned| {
        if number & END != 0 {
            machine.end();
            turned.sealed.extend(machine.turn(&[], &[])?.sealed);
        }
        Ok(turned)
    });
    match turned {
        Ok(turned) => told(turned),
        Err(error) => Reply::of_egress(&error),
    }
}

fn told(turned: Turned) -> Reply {
    let Turned { heard, sealed, agreed, has_ended } = turned;
    let agreed = agreed.map(|facts| GotTls::of(facts).told()).unwrap_or_default();
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
    let mut answer = Vec::with_capacity(9 + heard.len() + agreed.len() + sealed.len());
    answer.push(if has_ended { HAS_ENDED } else { 0 });
    answer.extend(length(&heard));
    answer.extend(length(&agreed));
    answer.extend([heard, agreed, sealed].concat());
    Reply::Done(answer)
}
