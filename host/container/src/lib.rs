//! Backend that runs jobs in Podman and Docker containers. Both engines share one code path.
//!
//! A job's container has one process of codebox, the [agent](codebox_agent), which starts the job's program and
//! forwards its streams. The module `harden` specifies every setting that an engine would otherwise choose by itself. A
//! container lives for one instance.
//!
//! An engine can also run in a virtual machine ([`EngineMachine`]), which sees the directories that a container needs.
//!
//! No type of bollard appears in a public signature.

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod agent_connection;
mod agent_file;
mod attached;
mod backend;
mod boxes;
mod caller;
mod cell;
mod classify;
mod command;
mod discover;
mod enforcement;
mod engine;
mod engine_machine;
mod error;
mod exec;
mod facts;
mod facts_cache;
mod flavour;
mod gc;
mod guest_modules;
mod harden;
mod home_secret;
mod id_ranges;
mod images;
mod instance;
mod labels;
mod last_state;
mod lease;
mod mounts;
#[cfg(target_os = "linux")]
mod owners;
mod port_forwards;
mod queries;
mod shared;
mod warm;
mod watch;

pub use agent_file::{agent_program, installed_agent_program, pack_agent};
pub use backend::{ContainerBackend, Settings};
pub use discover::{Candidate, EngineAddress, HostEnvironment, candidates, may_be_available};
pub use engine_machine::{EngineMachine, Guard, MachineEngine, Placed, PlacedDir};
pub use error::ContainerError;
pub use flavour::Flavour;
pub use images::ImageTable;
pub use warm::StartPoolDaemon;
