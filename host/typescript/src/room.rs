//! A stack that is deep enough for the syntax tree of any text.
//!
//! The parser, and what walks over its tree, call themselves for each level, and an overflow would end the process. The
//! shape of a text is looked at first, but only its length bounds the levels for certain: each takes a byte.

use std::sync::Once;
use std::{panic, thread};

use crate::error::StripError;
use crate::place::Place;
use crate::shape::{self, Refusal};

/// The longest text that is parsed, in bytes.
pub const LONGEST: usize = 512 << 10;

/// Stack for each byte of text. Brackets take the most, about 1,600 bytes each on x86-64; the tests hunt for more. It
/// is address space: what is not used never becomes memory.
const STACK_PER_BYTE: usize = 2560;

/// The name of the threads that parse.
const THREAD: &str = "codebox-typescript";

/// Keeps panics of the threads that parse from being printed: they are an answer, and not a fault of the process.
fn be_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if thread::current().name() != Some(THREAD) {
                others(panic);
            }
        }));
    });
}

/// Calls `look` with enough stack to parse `text`, on a thread of its own that may panic.
pub(crate) fn with_room<T: Send>(text: &str, look: impl FnOnce() -> T + Send) -> Result<T, StripError> {
    let length = text.len();
    if length > LONGEST {
        return Err(StripError::Long { length, most: LONGEST });
    }
    shape::check(text).map_err(|refusal| refused(text, refusal))?;
    be_quiet();
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name(THREAD.to_owned())
            .stack_size((1 << 20) + length * STACK_PER_BYTE)
            .spawn_scoped(scope, look);
        thread.ok().and_then(|thread| thread.join().ok()).ok_or(StripError::NoRoom { length })
    })
}

fn refused(text: &str, refusal: Refusal) -> StripError {
    let message = match refusal {
        Refusal::Deep(_) => "It nests too deeply",
        Refusal::Unclear(_) => {
            "This may be a division or a regular expression: put the expression it belongs to in parentheses"
        }
    };
    StripError::Syntax { message: message.to_owned(), place: Place::of(text, refusal.offset()) }
}
