//! The parsers of program text, for the analyzer program, tests and fuzzing. No other crate of codebox may depend on
//! this crate, because the host's process parses no program text.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod answer;
mod python;
mod script;

pub use answer::answer;
pub use python::{can_be_python, python_needs};
pub use script::script_needs;
