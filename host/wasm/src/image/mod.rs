//! Memory images: the contents of a guest's memory and globals when it starts.

mod builder;
mod file;
mod program_imports;

pub(crate) use builder::{BuiltImage, ENTRY_TEXT, ImageBuilder};
pub(crate) use file::{GlobalValue, Globals, ImageFacts, MemoryImage};
pub(crate) use program_imports::ProgramImports;
