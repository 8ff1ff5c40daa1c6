//! Warm containers, which are ready before a job needs them.
//!
//! The image, the directories and the memory of a container are fixed at its creation, so a warm container can serve
//! only a job of the same [shape](shape::Shape). Each container serves one job. A request for a shape also sets the
//! number of containers of that shape to keep ready from then on. A shape that is not requested for a while is dropped.
//!
//! A long-lived process keeps the containers itself, in a [pool](pool::Pool). For processes that run one job and exit,
//! a [pool daemon](pool_daemon) holds the pool: a process of the same user that lends a container by forwarding the
//! connection to its agent. When a daemon dies, its containers end with it, as those of any owner do.

mod client;
mod cloexec;
mod pool;
mod pool_daemon;
mod shape;
mod socket_dir;
mod wire;

use std::sync::Arc;

use crate::flavour::Flavour;

pub(crate) use client::{AcquireResult, acquire};
pub(crate) use cloexec::set_cloexec_on_all;
pub(crate) use pool::Pool;
pub(crate) use pool_daemon::{run_pool_daemon, stop_daemons};
pub(crate) use shape::Shape;
pub(crate) use socket_dir::SocketDir;
pub(crate) use wire::PoolRequest;

/// Returns an identifier of this build of codebox: the version, size and modification time of the program file, which
/// an update replaces. A container belongs to the build that created it, and no other build may use it.
pub(crate) fn build() -> String {
    let program_id = || {
        let path = std::env::current_exe().ok()?;
        let meta = std::fs::metadata(path).ok()?;
        let changed = meta.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(format!("{} {} {}", env!("CARGO_PKG_VERSION"), meta.len(), changed.as_nanos()))
    };
    // An unknown build must not equal any other.
    program_id().unwrap_or_else(|| format!("unknown {:016x}", rand::random::<u64>()))
}

/// Function that starts a pool daemon for an engine in a separate process, with the text as its standard input.
pub type StartPoolDaemon = Arc<dyn Fn(Flavour, &str) -> std::io::Result<()> + Send + Sync>;
