//! File operations of the host around a job, by directory handle and without following links.
//!
//! A job's inputs are written to private directories ([`Scratch`], [`put_file`]), and its changes are listed and copied
//! out ([`collect`]). [`measure`] adds up its disk usage while it runs. Hostile content (links, FIFOs, devices, names
//! that are not UTF-8, endless trees) is reported and never followed, and no operation blocks on it.
//!
//! Invariant: below a directory that a job can write to, entries are opened, created, changed or removed only by a name
//! of one component, relative to an open directory handle.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(all(test, unix))]
mod bench;
mod budget;
mod changes;
mod collect;
mod config;
mod error;
mod git;
mod hex;
mod inputs;
mod open;
mod outputs;
mod private;
mod program;
mod remove;
mod scratch;
mod sys;
mod trust;
mod usage;

pub use budget::Budget;
pub use cap_std::fs::Dir;
pub use collect::{Left, Owner, collect};
pub use config::{Believed, read_config};
pub use error::FilesError;
pub use git::is_git_name;
pub use hex::hex;
pub use inputs::{Before, Put, put_file};
pub use open::open_linkless;
pub use private::private_dir;
pub use program::ProgramFile;
pub use scratch::{InstanceScratch, Scratch, is_owned};
pub use sys::{file_time, open_itself};
pub use trust::{Untrusted, check_own_or_root};
pub use usage::{Ceiling, Used, measure};
