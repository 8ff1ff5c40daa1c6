//! Standard streams of a job, the same for every backend: input that is read on demand ([`Stdin`]), output that is
//! capped ([`Output`]) and delivered as it is written ([`Delivery`]), and streams of a run that another run can replace
//! ([`Revocable`]).

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod continuing;
mod delivery;
mod lingering;
mod output;
mod revocable;
mod rewind;
mod stdin;

pub use continuing::{Continuing, Differs};
pub use delivery::{Delivery, LAST_WORDS, Sinks};
pub use lingering::Lingering;
pub use output::{Output, WriteFailed};
pub use revocable::{NOT_READ, READ_TOO_MUCH, Revocable, go_on};
pub use rewind::Rewind;
pub use stdin::Stdin;
