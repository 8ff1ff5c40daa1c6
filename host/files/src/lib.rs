//! The one layer for host file work around a job: by directory handle, following no link.
//!
//! A job's files are put into private directories ([`Scratch`], [`put_file`]) and what it left is listed and brought
//! out ([`collect`]); while it runs, what it takes on the disk is added up ([`measure`]). What a job can plant there (links,
//! pipes, devices, names that are no text, trees without end) is reported and never followed, and nothing here waits for it.
//!
//! Invariant: below a directory that a job can write to, nothing is opened, made, changed or removed but by a name of
//! one component in a directory that is held open.

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
