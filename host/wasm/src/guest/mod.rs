//! One guest as the host sees it: its state, its system interface and its limits.

mod channel;
mod descriptors;
mod errno;
mod limiter;
mod linker;
mod listing;
mod memory;
mod net;
mod paths;
mod quota;
mod strip;

pub(crate) use channel::{Channel, Missing, SeedHint, Uncaught};
pub(crate) use descriptors::{DescriptorTable, Flood};
pub(crate) use limiter::MemoryLimiter;
pub(crate) use linker::linker;
pub(crate) use listing::Listings;
pub(crate) use net::Net;
pub(crate) use quota::Quota;
pub(crate) use strip::Stripper;

use codebox_core::{Captured, NetUse};
use codebox_streams::{Delivery, Output, Stdin};
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
    /// Where both go as they come.
    pub delivery: Delivery,
    /// The descriptors that the guest knows.
    pub descriptors: DescriptorTable,
    /// Directories that the guest is listing.
    pub listings: Listings,
    /// Messages between the guest's prelude and the host.
    pub channel: Channel,
    /// The network, if it was granted any of it.
    pub net: Option<Net>,
}

/// What a guest left behind.
pub(crate) struct Told {
    pub channel: Channel,
    pub limiter: MemoryLimiter,
    pub quota: Quota,
    /// Its standard output and error.
    pub captured: [Captured; 2],
    /// What it tried on the network, and what went through.
    pub network: NetUse,
}

impl Guest {
    /// What it left behind.
    pub(crate) fn told(self) -> Told {
        let Self { channel, limiter, quota, stdout, stderr, net, .. } = self;
        let network = net.map(|net| net.used()).unwrap_or_default();
        Told { channel, limiter, quota, captured: [stdout.finish(), stderr.finish()], network }
    }
}
