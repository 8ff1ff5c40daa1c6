//! Runtimes that are components: any language, brought by the user, behind the contract of the WIT package.
//!
//! A component speaks WASI 0.2 and exports the world that codebox calls; it cannot be imaged, so every job
//! instantiates it afresh. Grants, limits and reports are those of the other guests.

mod bind;
mod code;
mod contract;
mod descriptors;
mod devices;
mod files;
mod job;
mod live;
mod state;
mod stdio;
mod writes;

pub(crate) use code::ComponentCode;
pub(crate) use live::Live;
