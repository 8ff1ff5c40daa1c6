//! List of cases.

mod asynchronous;
mod devices;
mod ends;
mod exits;
mod files;
mod finaliser;
mod frames;
mod grants;
mod left_open;
mod library;
mod limit_reports;
mod limits;
mod local;
mod missing;
mod network;
mod program;
mod status;
mod streams;
mod tracebacks;
mod types;
mod verify;
mod wait;

use crate::case::Case;

/// Returns every case, ordered by topic.
pub fn all() -> Vec<Case> {
    let topics = [
        program::cases(),
        types::cases(),
        ends::cases(),
        exits::cases(),
        status::cases(),
        left_open::cases(),
        finaliser::cases(),
        wait::cases(),
        tracebacks::cases(),
        frames::cases(),
        streams::cases(),
        asynchronous::cases(),
        missing::cases(),
        library::cases(),
        local::cases(),
        files::cases(),
        devices::cases(),
        grants::cases(),
        limits::cases(),
        network::cases(),
        limit_reports::cases(),
    ];
    topics.into_iter().flatten().collect()
}
