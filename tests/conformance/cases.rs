//! The list.

mod asyncio;
mod endings;
mod ends;
mod files;
mod grants;
mod library;
mod limits;
mod missing;
mod program;
mod streams;
mod tracebacks;

use crate::case::Case;

/// Every case, in the order of the topics.
pub fn all() -> Vec<Case> {
    let topics = [
        program::cases(),
        ends::cases(),
        endings::cases(),
        tracebacks::cases(),
        streams::cases(),
        asyncio::cases(),
        missing::cases(),
        library::cases(),
        files::cases(),
        grants::cases(),
        limits::cases(),
    ];
    topics.into_iter().flatten().collect()
}
