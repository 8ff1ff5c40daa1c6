//! Runtimes that are components: languages supplied by the user, behind the contract of the WIT package.
//!
//! A component uses WASI 0.2 and exports the world that codebox calls. A component cannot be imaged, so every job makes
//! a new instance. Grants, limits and reports are the same as for the other guests.

mod bind;
mod code;
mod contract;
mod descriptors;
mod devices;
mod files;
mod instance;
mod job;
mod network;
mod state;
mod stdio;
mod writes;

pub(crate) use code::ComponentCode;
pub(crate) use contract::{check_parts, check_wasi_import, imports_network};
pub(crate) use instance::{ComponentStore, GuestInstance};
pub(crate) use state::{State, link as link_component};
