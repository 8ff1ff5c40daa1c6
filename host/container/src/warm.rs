//! Containers that are ready before somebody asks for them.
//!
//! A container's image, directories and memory are settled when it is made, so one that waits can serve only a job that
//! would have had one of the very same [shape](shape::Shape). Each serves one job. Who asked for a shape says how many of it
//! are to be ready from then on; a shape that nobody asks for is given up after a while.
//!
//! A process that lives long keeps them itself, in a [pool](pool::Pool). For processes that run one job and end, a
//! [keeper](keeper) holds the pool: a process of the same user's, which lends a container by passing on the line to its agent.
//! A keeper that dies takes its containers with it, as any owner does.

mod folder;
mod inherited;
mod keeper;
mod lease;
mod pool;
mod shape;
mod wire;

use std::sync::Arc;

use crate::engine::Flavour;

pub(crate) use folder::Folder;
pub(crate) use inherited::keep_here;
pub(crate) use keeper::{end_all, keep};
pub(crate) use lease::{Answer, ask};
pub(crate) use pool::Pool;
pub(crate) use shape::Shape;
pub(crate) use wire::{Asked, Lease};

/// What tells this build of codebox from others: the program's own file, which an update replaces. What a container is made
/// with is this program's, so no other one's is to be had.
pub(crate) fn build() -> String {
    let told = || {
        let path = std::env::current_exe().ok()?;
        let meta = std::fs::metadata(path).ok()?;
        let changed = meta.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(format!("{} {} {}", env!("CARGO_PKG_VERSION"), meta.len(), changed.as_nanos()))
    };
    // Nothing is like what cannot be told.
    told().unwrap_or_else(|| format!("unknown {:016x}", rand::random::<u64>()))
}

/// Starts a keeper for an engine, in a process of its own that gets this text on its standard input.
pub type StartKeeper = Arc<dyn Fn(Flavour, &str) -> std::io::Result<()> + Send + Sync>;
