//! Programs that are WebAssembly themselves: commands of WASI, as modules (preview 1) and as components (0.2).
//!
//! They have the same files, streams, limits and reports as programs of the other languages, and none of codebox's own interfaces. Their
//! code is compiled when the instance is opened, before the process is confined.

mod code;
mod component;
mod module;

pub(crate) use code::{ProgramCode, ProgramForm};
pub(crate) use component::ComponentProgram;
pub(crate) use module::ModuleProgram;

use codebox_core::GuestPath;

use crate::error::WasmError;
use crate::mounts::Mount;

/// Returns the index of the mount to which relative paths of a program lead: that of its working directory.
///
/// # Errors
/// [`WasmError::Input`] if the working directory is not the place of a mount. The libraries of programs know no other one.
fn default_mount(mounts: &[Mount], work_dir: &GuestPath) -> Result<usize, WasmError> {
    let found = mounts.iter().position(|mount| mount.guest == *work_dir);
    found.ok_or_else(|| WasmError::input("the working directory", format!("{work_dir} is not a granted directory")))
}
