//! Checkpoints: the state of a session at rest, in a directory of its own.
//!
//! A checkpoint has the pages of the guest's memory that differ from the memory image ([`pages`]), in files that it shares with the
//! checkpoints before, a description of them and of the rest of the state ([`state`]), and copies of the guest's private directories. It is read as untrusted: its
//! writer may have been a guest that left its sandbox, and it may come from another machine.

mod pages;
mod rebase;
mod state;

pub(crate) use pages::{SavedPages, write_pages};
pub(crate) use rebase::{Base, rebase};
pub(crate) use state::{Expected, Restored, State, read, write};
