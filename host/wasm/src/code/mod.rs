//! Code images: a runtime's module without its data, compiled ahead of time and mapped from disk.

mod audit;
mod load;
mod patch;
mod split;

pub(crate) use load::{CodeImage, load_component};
pub(crate) use patch::{PATCHER_VERSION, Patch, apply};
pub(crate) use split::split;
