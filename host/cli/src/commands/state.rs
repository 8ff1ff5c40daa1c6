//! Formatting that the listings of runtimes and images share.

use std::path::Path;

use codebox_service::catalog::{EntryState, Removal};

use crate::messages::Messages;
use crate::render::bytes;

pub(super) fn state(state: &EntryState) -> String {
    match state {
        EntryState::Installed => "installed".to_owned(),
        EntryState::Missing => "not installed".to_owned(),
        EntryState::Damaged(why) => format!("damaged: {why}"),
    }
}

/// Returns the state and the reason for damage, for JSON.
pub(super) fn state_words(state: &EntryState) -> (&'static str, Option<&str>) {
    match state {
        EntryState::Installed => ("installed", None),
        EntryState::Missing => ("missing", None),
        EntryState::Damaged(why) => ("damaged", Some(why)),
    }
}

pub(super) fn size(size: Option<u64>) -> String {
    size.map_or_else(|| "-".to_owned(), bytes)
}

pub(super) fn place(path: Option<&Path>) -> String {
    path.map_or_else(|| "-".to_owned(), |path| path.display().to_string())
}

pub(super) fn print_removal(what: &str, name: &str, removal: Removal, messages: Messages) {
    match removal {
        Removal::Removed => messages.note(format!("removed {what} {name}")),
        Removal::NothingThere => messages.note(format!("{what} {name} is not installed")),
    }
}
