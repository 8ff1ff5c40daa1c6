//! One guest as the host sees it: its state, its system interface and its limits.

mod channel;
mod errno;
mod limiter;
mod linker;
mod memory;
mod output;
mod paths;
mod quota;
mod stdin;

pub(crate) use channel::{Channel, SeedHint};
pub(crate) use limiter::MemoryLimiter;
pub(crate) use linker::{Flood, linker};
pub(crate) use output::Output;
pub(crate) use quota::Quota;
pub(crate) use stdin::Stdin;

use wasmtime_wasi::p1::WasiP1Ctx;

use crate::mounts::MountTable;

/// The state of a store: everything that belongs to one guest and to no other.
pub(crate) struct Guest {
    /// The system interface that the shadowing functions delegate to.
    pub wasi: WasiP1Ctx,
    /// Where the guest's paths lead.
    pub mounts: MountTable,
    pub limiter: MemoryLimiter,
    pub quota: Quota,
    pub stdin: Stdin,
    pub stdout: Output,
    pub stderr: Output,
    /// Messages between the guest's prelude and the host.
    pub channel: Channel,
}
