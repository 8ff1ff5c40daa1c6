//! Runs jobs in containers of Podman and Docker, which are two values of one code path.
//!
//! A job's container has one process of ours, the [agent](codebox_agent), which starts the job's program and passes its
//! streams on. The container is made by `harden` with everything stated that an engine would otherwise
//! choose by itself, and lives for one instance.
//!
//! Types of bollard appear in no public signature.

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod agent_file;
mod backend;
mod caller;
mod classify;
mod command;
mod discover;
mod doors;
mod engine;
mod error;
mod exec;
mod facts;
mod gc;
mod harden;
mod home_secret;
mod images;
mod instance;
mod labels;
mod last_state;
mod mounts;
mod notes;
#[cfg(target_os = "linux")]
mod owners;
mod questions;
mod talk;
mod uncaught;
mod warm;
mod watch;

pub use agent_file::agent_program;
pub use backend::{ContainerBackend, Settings};
pub use discover::{Candidate, Place, Surroundings, candidates};
pub use engine::Flavour;
pub use error::ContainerError;
pub use facts::{EngineFacts, Weakness};
pub use gc::{Leftover, Swept};
pub use images::{ImageTable, LocalImage};
pub use warm::StartKeeper;
