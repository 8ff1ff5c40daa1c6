//! Code images: a runtime's module without its data, compiled ahead of time and mapped from disk.

mod audit;
mod load;
mod split;

pub(crate) use load::{CodeImage, load_component};
pub(crate) use split::split;
