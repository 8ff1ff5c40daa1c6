//! The fast path: guests in WebAssembly, started from memory images.

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
mod region;
mod run;
mod store;
mod sys;

pub use engine::Engine;
pub use error::WasmError;
pub use region::ResetChecks;
pub use run::{WasmBackend, Way, Ways};
pub use store::{
    BuiltIn, ComponentFile, DataArchive, ImageEntry, ImageRecipe, Package, Registry, RuntimeParts, RuntimeSpec,
    RuntimeState, Steps, Store, StoreDirs, sha256_of, sha256_of_file,
};

/// Whether this system can put a guest's memory back without mapping it afresh.
pub fn resets_in_place() -> bool {
    #[cfg(target_os = "linux")]
    return sys::Pagemap::get().is_some();
    #[cfg(not(target_os = "linux"))]
    false
}
