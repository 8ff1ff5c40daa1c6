//! One guest on the host: its state, its system interface and its limits.

mod channel;
mod clock;
mod descriptors;
mod errno;
mod limiter;
mod linker;
mod listing;
mod memory;
mod message;
mod missed;
mod net;
mod parts;
mod paths;
mod quota;
mod strip;
mod witness;

pub(crate) use channel::{Channel, MAX_SEEDS, Missing, SeedHint, SentFrame, UncaughtException};
pub(crate) use clock::GuestClock;
pub(crate) use descriptors::{DescriptorTable, Flood};
pub(crate) use limiter::MemoryLimiter;
pub(crate) use linker::{WASI, linker, wasi_linker};
pub(crate) use listing::Listings;
pub(crate) use message::{JobKind, argv0, message};
pub(crate) use net::{Net, Op as NetOp, Reply as NetReply, Request as NetRequest, not_granted};
pub(crate) use parts::{Parts, load_parts};
pub(crate) use quota::Quota;
pub(crate) use strip::Stripper;
pub(crate) use witness::{MAX_PATH_LEN, MAX_PATHS, Uses, Witness};

use std::mem;
use std::sync::Arc;

use codebox_core::{ByteSize, CapturedOutput, Limit, MissedFiles, NetworkUsage};
use codebox_streams::{Delivery, Output, Sinks, Stdin};
use wasmtime_wasi::p1::WasiP1Ctx;

use crate::mounts::MountTable;

/// The state of a store, which belongs to exactly one guest.
pub(crate) struct Guest {
    /// The WASI context of the functions that the shadowing functions delegate to.
    pub wasi: WasiP1Ctx,
    /// The mounts, which resolve the guest's paths.
    pub mounts: MountTable,
    pub limiter: MemoryLimiter,
    pub quota: Quota,
    pub stdin: Stdin,
    pub stdout: Output,
    pub stderr: Output,
    /// The live delivery of standard output and error.
    pub delivery: Delivery,
    /// The descriptors of the guest.
    pub descriptors: DescriptorTable,
    /// Directories that the guest is listing.
    pub listings: Listings,
    /// Files that the guest missed.
    pub missed: MissedFiles,
    /// Messages between the guest's prelude and the host.
    pub channel: Channel,
    /// The network, if any of it is granted.
    pub net: Option<Net>,
    /// The parts of the guest's code. `None` if it has no parts.
    pub parts: Option<Parts>,
    /// Observer of what the guest uses of its surroundings, while an image is made.
    pub witness: Option<Arc<Witness>>,
    /// The guest's monotonic clock.
    pub clock: GuestClock,
}

/// The standard streams of a job, and its messages to the host.
pub(crate) struct JobStreams {
    pub stdin: Stdin,
    pub stdout: Output,
    pub stderr: Output,
    pub sinks: Sinks,
    /// True if the streams are a terminal. Those of a further job of the same guest are not.
    pub is_terminal: bool,
    pub channel: Channel,
}

/// The results of a job.
pub(crate) struct GuestResult {
    pub channel: Channel,
    pub limiter: MemoryLimiter,
    pub quota: Quota,
    pub missed: MissedFiles,
    /// Captured standard output and error.
    pub captured: [CapturedOutput; 2],
    /// Attempted network connections and transferred bytes.
    pub network: NetworkUsage,
}

impl Guest {
    /// Starts a further job of the guest with these streams and messages.
    pub(crate) fn start_job(&mut self, streams: JobStreams) {
        let JobStreams { stdin, stdout, stderr, sinks, is_terminal: _, channel } = streams;
        (self.stdin, self.stdout, self.stderr) = (stdin, stdout, stderr);
        self.delivery = Delivery::new(sinks);
        self.channel = channel;
        self.quota.start_job();
        self.limiter.start_job();
    }

    /// Describes what the guest has open, beside its standard streams: files, pipes and connections. At most five are named.
    #[cfg(target_os = "linux")]
    pub(crate) fn describe_open(&self) -> Vec<String> {
        const MAX_NAMED: usize = 5;
        let connections = self.net.as_ref().map(Net::describe_open).unwrap_or_default();
        let mut open: Vec<String> = self.descriptors.describe_changes().chain(connections).collect();
        if open.len() > MAX_NAMED {
            let more = open.len() - MAX_NAMED;
            open.truncate(MAX_NAMED);
            open.push(format!("{more} more"));
        }
        open
    }

    /// Takes the results of a job.
    pub(crate) fn take_result(&mut self) -> GuestResult {
        let take = |output: &mut Output| mem::replace(output, Output::new(Limit::At(ByteSize::bytes(0)))).finish();
        GuestResult {
            channel: mem::take(&mut self.channel),
            limiter: self.limiter.clone(),
            quota: self.quota.clone(),
            missed: mem::take(&mut self.missed),
            captured: [take(&mut self.stdout), take(&mut self.stderr)],
            network: self.net.as_ref().map(Net::used).unwrap_or_default(),
        }
    }
}
