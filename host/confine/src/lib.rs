//! The second wall: the process gives up, for ever, everything a job does not need.
//!
//! WebAssembly is the first wall. This one assumes that the first has a hole, and that hostile code runs
//! with the rights of this process: it must still find no file but those granted, no network, no other
//! process to signal, and no program to start.
//!
//! On Linux the wall is made of two parts, each reported as a [`Wall`]:
//!
//! - *landlock* takes away the file system but for the [`Rules`], TCP, and, where the kernel can, signals
//!   and abstract Unix sockets to processes outside.
//! - *seccomp* allows the system calls that a WebAssembly host with threads and files uses and no other:
//!   what is not on the list fails with `EPERM`; what only an attack would call kills the process.
//!
//! Elsewhere nothing is applied yet, and the walls say so.
//!
//! # What it does not do
//!
//! - Descriptors and mappings that are already open stay usable: open late, close early. `/proc/self/pagemap`
//!   and whatever else lies outside of the rules has to be opened before.
//! - Landlock does not guard metadata: names, sizes and times of files outside of the rules can be read by
//!   whoever knows their path, and times can be set where the user may. Modes, owners and extended
//!   attributes cannot be changed by path, for seccomp has no call for them.
//! - It bounds what can be reached, not how much: memory, processor time and disk need limits of their own.
#![forbid(unsafe_code)]

mod error;
mod rules;
mod sys;
mod wall;

pub use error::ConfineError;
pub use rules::{ExecMappings, Network, Openat2, Place, Rules};
pub use wall::{Wall, WallState};

/// Confines the calling thread and everything it later spawns to `rules`, until the process ends.
///
/// Call it once, before any other thread is started. Seccomp reaches every thread of the process; Landlock
/// does so from its ABI 8 on, and before that leaves threads that already run as they were, in which case
/// its wall is [`WallState::Partial`] and its detail says why.
///
/// A kernel that lacks a part is no error: the returned walls say what holds, and it is for the caller to
/// refuse a job that asks for more. A second call fails, for the first one took the means away.
///
/// # Errors
///
/// A place that cannot be opened or is a symbolic link fails before anything was applied. Any later error
/// can leave the process half confined; it should then not go on to run guest code.
pub fn confine(rules: &Rules) -> Result<Vec<Wall>, ConfineError> {
    sys::confine(rules)
}
