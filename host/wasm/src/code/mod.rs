//! Code images: a runtime's module without its data, compiled ahead of time and mapped from disk.

mod audit;
mod compile;
mod functions;
mod level;
mod load;
mod parts;
mod patch;
mod publish;
mod split;

pub(crate) use compile::{compile_component, compile_module, on_own_threads, precompile_component, precompile_module};
pub(crate) use functions::{FunctionTable, RuntimeFunctions, TRAP, with_trap};
pub use level::{CodeLevel, UnknownLevel};
pub(crate) use load::{CodeFile, CodeImage, LaterParts, NotCompiled, load_component};
pub(crate) use parts::{FUNCTION_MODULE, LOAD_PARTS, MAX_PARTS, PART_MODULE, PRIMARY_MODULE, Plan, TABLE};
pub use parts::{PartSpec, SplitSpec};
pub(crate) use patch::{PATCHER_VERSION, Patch, apply};
pub(crate) use publish::CodePublisher;
pub(crate) use split::split;
