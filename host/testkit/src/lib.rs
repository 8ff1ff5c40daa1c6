//! Support for tests of the whole program; development only.
//!
//! A [`Kit`] holds the program under test and the home that its runtime is installed in. [`Kit::codebox`] creates a
//! command with an empty environment; running the command returns a [`ProcessResult`], whose [`Report`] is the JSON that the
//! program printed. [`Canaries`] and [`ResourceSnapshot`] are the oracle of the hostile tests: secrets that must not leak, and
//! resource counts that must be unchanged after a run.

#![forbid(unsafe_code)]

mod canary;
mod child;
mod codebox;
#[cfg(unix)]
mod dispositions;
mod engine;
#[cfg(unix)]
mod fault_proxy;
mod fixture;
mod guest;
#[cfg(unix)]
mod host_process;
mod kit;
mod listener;
mod machine;
mod redact;
mod registries;
mod report;
mod require;
mod resource_snapshot;
mod vendored;

pub use canary::Canaries;
pub use child::{Input, ProcessResult};
pub use codebox::Codebox;
pub use engine::{BASE_IMAGE, HOSTILE_IMAGE, check_engine, engine_output};
#[cfg(unix)]
pub use fault_proxy::{BytePosition, EngineCall, Fault, FaultProxy};
pub use fixture::{Header, compat_dir, corpus_dir, fixtures, programs_in, pyperformance_dir};
pub use guest::Guest;
#[cfg(unix)]
pub use host_process::HostProcess;
pub use kit::{Kit, shared_home};
pub use listener::Listener;
pub use machine::{machine_image, start_machine};
pub use redact::redact;
pub use registries::{has_registries, succeed};
pub use report::Report;
pub use require::{Soak, is_full, is_required, is_selected, soak};
pub use resource_snapshot::ResourceSnapshot;
pub use vendored::sources_of;
