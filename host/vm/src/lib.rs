//! The tier of containers in a virtual machine, for machines without a container engine.
//!
//! A [`Provider`] makes and runs the machine. It gives a byte stream to the program inside, and everything else goes over that stream, the
//! same for all providers: a [`Channel`] connects to Podman, runs commands, sets the clock and turns the machine off. The
//! [forwarder](forward) listens on a socket of this machine that only its user can reach, at which the backend for containers finds
//! Podman as it finds any other.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod channel;
mod error;
#[cfg(unix)]
pub mod forward;
mod image;
mod provider;
#[cfg(unix)]
mod qemu;
mod spec;

pub use channel::{Channel, CommandResult};
pub use codebox_vm_guest::{Exec, Facts};
pub use error::{Layer, VmError};
pub use image::{IMAGE_VERSION, ImageError, VmImage};
pub use provider::{ByteStream, Provider, VmState};
#[cfg(unix)]
pub use qemu::Qemu;
pub use spec::VmSpec;
