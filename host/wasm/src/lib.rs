//! The WebAssembly backend: guests that are started from memory images.

#[cfg(target_os = "linux")]
mod checkpoint;
mod code;
mod component;
mod devices;
mod engine;
mod error;
mod guest;
mod image;
mod interrupt;
mod launch;
mod mounts;
mod program;
mod region;
mod run;
mod store;
mod sys;

pub use code::{CodeLevel, PartSpec, SplitSpec, UnknownLevel};
pub use engine::Engine;
pub use error::WasmError;
pub use region::ResetChecks;
pub use run::{Connector, Connectors, WasmBackend};
pub use store::{
    AutomaticState, BuiltInModule, ComponentFile, DataArchive, DraftDir, Drafted, ImageEntry, ImageRecipe,
    Installation, Package, Registry, RuntimeParts, RuntimeSpec, RuntimeState, Store, StoreDirs, sha256_of_file,
};

/// Returns true if this system can reset a guest's memory without mapping it again.
fn supports_in_place_reset() -> bool {
    #[cfg(target_os = "linux")]
    return sys::Pagemap::get().is_some();
    #[cfg(not(target_os = "linux"))]
    false
}
