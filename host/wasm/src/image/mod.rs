//! Memory images: what a guest's memory and globals hold at the moment it starts.

mod file;
mod make;

pub(crate) use file::{GlobalValue, ImageFacts, MemoryImage};
pub(crate) use make::Maker;
