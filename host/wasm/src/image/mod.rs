//! Memory images: the contents of a guest's memory and globals when it starts.

mod file;
mod make;

pub(crate) use file::{GlobalValue, ImageFacts, MemoryImage};
pub(crate) use make::Maker;
