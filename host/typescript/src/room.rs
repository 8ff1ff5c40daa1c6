//! The texts that are parsed at all.
//!
//! The parser, and what walks over its tree, call themselves for each level. The shape of a text is looked at first, so that
//! people are told where it nests too deeply; what passes may still overflow the stack, which ends the process.

use crate::error::StripError;
use crate::place::Place;
use crate::shape::{self, Refusal};

/// The longest text that is parsed, in bytes.
pub const LONGEST: usize = 512 << 10;

/// Calls `look` if `text` may be parsed.
pub(crate) fn with_room<T>(text: &str, look: impl FnOnce() -> T) -> Result<T, StripError> {
    let length = text.len();
    if length > LONGEST {
        return Err(StripError::Long { length, most: LONGEST });
    }
    shape::check(text).map_err(|refusal| refused(text, refusal))?;
    Ok(look())
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
