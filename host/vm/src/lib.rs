//! The tier of containers in a virtual machine, for machines without a container engine.
//!
//! A [`Provider`] makes and runs the machine. It gives a byte stream to the program inside, and everything else goes over that stream, the
//! same for all providers: a [`Channel`] connects to Podman, runs commands, sets the clock and turns the machine off. The
//! [forwarder](forward) listens on a socket of this machine that only its user can reach, at which the backend for containers finds
//! Podman as it finds any other.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod channel;
#[cfg(target_os = "linux")]
mod client;
mod error;
mod files;
#[cfg(unix)]
pub mod forward;
mod image;
#[cfg(target_os = "linux")]
mod keeper;
#[cfg(unix)]
mod lima;
#[cfg(target_os = "linux")]
mod message;
#[cfg(target_os = "linux")]
mod place;
mod program;
mod provider;
#[cfg(target_os = "linux")]
mod qemu;
#[cfg(target_os = "linux")]
mod share;
mod spec;
mod wsl;

pub use channel::{Channel, CommandOutput, CommandResult};
#[cfg(target_os = "linux")]
pub use client::{Lease, StartKeeper, VmClient};
pub use codebox_vm_guest::{Exec, Facts};
pub use error::{Layer, VmError};
pub use image::{IMAGE_VERSION, ImageError, VmImage};
#[cfg(target_os = "linux")]
pub use keeper::{end_abandoned, keep_vm};
#[cfg(unix)]
pub use lima::Lima;
#[cfg(target_os = "linux")]
pub use message::{PlaceRequest, Ready, Status};
#[cfg(target_os = "linux")]
pub use place::{DEFAULT_IDLE, VmSettings};
pub use provider::{ByteStream, Provider, VmState};
#[cfg(target_os = "linux")]
pub use qemu::Qemu;
#[cfg(target_os = "linux")]
pub use share::{Share, ShareSpec};
pub use spec::VmSpec;
pub use wsl::{DriveError, DriveMount, Wsl};
