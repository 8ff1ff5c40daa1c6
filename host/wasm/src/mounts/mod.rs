//! The mount table: where each of a guest's paths leads.
//!
//! A guest knows one directory, `/`. Behind it the host keeps one descriptor for each mount, which the guest has
//! never heard of; a path that starts with a mount's is sent to the mount's descriptor with the rest of the path,
//! and the system interface resolves that rest beneath the mount's own directory.

mod guard;
mod resolve;
mod table;

pub(crate) use guard::{Guard, Last};
pub(crate) use resolve::device_path;
pub(crate) use table::{Mount, MountTable, Place, ROOT_FD, Target};
