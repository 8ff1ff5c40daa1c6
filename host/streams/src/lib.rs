//! The standard streams of a job, the same for every backend: input that is read as it is asked for ([`Stdin`]), output
//! that is kept within a cap ([`Output`]) and passed on as it comes ([`Delivery`]).

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod delivery;
mod output;
mod stdin;

pub use delivery::{Delivery, LAST_WORDS, Sinks};
pub use output::{Output, WriteFailed};
pub use stdin::Stdin;
