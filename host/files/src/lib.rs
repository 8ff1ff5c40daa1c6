//! File operations of the host around a job, by directory handle and without following links.
//!
//! A job's inputs are written to private directories ([`Scratch`], [`write_input_file`]), and its changes are listed and copied
//! out ([`collect`]). [`measure`] adds up its disk usage while it runs. Hostile content (links, FIFOs, devices, names
//! that are not UTF-8, endless trees) is reported and never followed, and no operation blocks on it.
//!
//! Invariant: below a directory that a job can write to, entries are opened, created, changed or removed only by a name
//! of one component, relative to an open directory handle.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod archive;
mod budget;
mod changes;
mod collect;
mod config;
mod embedded;
mod error;
#[cfg(all(test, unix))]
mod fixture;
mod git;
mod hex;
mod inputs;
mod limited_reader;
mod link;
mod open;
mod outputs;
mod private;
mod program;
mod project;
mod remove;
mod returned;
mod scratch;
#[cfg(unix)]
mod socket_dir;
mod sys;
mod tree;
mod trust;
mod usage;
mod work_dir;

pub use archive::{UnpackRules, pack_tree, unpack_tree};
pub use budget::Budget;
pub use cap_std::fs::Dir;
pub use collect::collect;
pub use config::{TrustedOwners, read_config};
pub use embedded::EmbeddedFile;
pub use error::FilesError;
pub use git::is_git_name;
pub use hex::hex;
pub use inputs::{InputEntry, InputManifest, make_input_dir, write_input_file};
pub use limited_reader::{LimitedReader, MAX_MEMBER_HEADER};
pub use link::link_or_copy;
pub use open::{
    FileKinds, create_new_file, open_dir_without_symlinks, open_for_appending, open_for_reading, open_inner_dir,
    open_last_dir,
};
pub use private::private_dir;
pub use program::ProgramFile;
pub use project::{
    LeftOut, LeftOutReason, MAX_PROJECT_BYTES, MAX_PROJECT_FILES, ProjectError, ProjectFile, ProjectFiles, excluded,
    read_project,
};
pub use returned::read_inner_file;
pub use scratch::{InstanceScratch, Scratch, is_in_use};
#[cfg(unix)]
pub use socket_dir::SocketDir;
pub use sys::{check_own_or_private, check_own_or_root, check_resolved_path, file_time, set_nofollow};
pub use tree::{copy_tree, sync_tree};
pub use trust::UntrustedReason;
pub use usage::{DiskUsage, UsageLimits, measure};
pub use work_dir::{JobWorkDir, Owner};
