//! Standard streams of a job, the same for every backend: input that is read on demand ([`Stdin`]), output that is
//! capped ([`Output`]) and delivered as it is written ([`Delivery`]), and streams of a run that another run can replace
//! ([`ReplaceableRun`]). Also the rich results that a guest sends ([`RichResults`]).

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod delayed_sink;
mod delivery;
mod output;
mod recording;
mod replaceable;
mod replay_filter;
mod rich_results;
mod stdin;

pub use delivery::{DRAIN_TIMEOUT, Delivery, Sinks};
pub use output::{Output, WriteError};
pub use replaceable::{INPUT_NOT_REMEMBERED, ReplaceableRun, resume_streams};
pub use replay_filter::DivergenceFlag;
pub use rich_results::{MAX_PARSED, MAX_SHOWN, MAX_SHOWN_SIZE, RESULT_TAG, Recorded, RichResults};
pub use stdin::Stdin;
