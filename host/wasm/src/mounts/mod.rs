//! The mount table, which resolves a guest's paths.
//!
//! A guest has one preopened directory, `/`. The host also has one descriptor for each mount, which the guest cannot
//! use. A path that starts with the path of a mount is redirected to the mount's descriptor with the rest of the path,
//! and `wasmtime-wasi` resolves the rest below the mount's directory.

mod guard;
mod mount;
mod resolve;
mod table;

pub(crate) use guard::{FinalSymlink, MountGuard};
pub(crate) use mount::Mount;
pub(crate) use resolve::device_path;
pub(crate) use table::{MountTable, PathLocation, ROOT_FD, Target};
