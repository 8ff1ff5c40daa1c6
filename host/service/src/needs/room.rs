//! A stack that is deep enough for the syntax tree of any text.
//!
//! In a valid program [`depth`](super::depth) bounds how deeply the tree nests. In what is no program the parser may go on
//! nesting from line to line as it recovers, and then only the text's length bounds it.

use std::thread;

/// The longest text that is parsed. Hardly any script is a tenth of it, and it keeps the stack below 128 MiB of
/// address space, of which only what is used becomes memory.
pub(super) const LONGEST: usize = 256 << 10;

/// So short a text cannot nest deeply enough for any stack to matter.
const SHORT: usize = 1 << 10;

/// Stack for each byte of text; the tests hunt for a text that takes more.
const STACK_PER_BYTE: usize = 512;

/// Calls `look` with enough stack to parse `text`; `None` if there is not so much.
pub(super) fn with_room<T: Send>(text: &str, look: impl FnOnce() -> T + Send) -> Option<T> {
    if text.len() <= SHORT {
        return Some(look());
    }
    if text.len() > LONGEST {
        return None;
    }
    thread::scope(|scope| {
        thread::Builder::new()
            .name("codebox-needs".to_owned())
            .stack_size((1 << 20) + text.len() * STACK_PER_BYTE)
            .spawn_scoped(scope, look)
            .ok()?
            .join()
            .ok()
    })
}
