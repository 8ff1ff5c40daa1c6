//! Dev containers: containers that a project describes in `devcontainer.json`.
//!
//! The [official program](https://github.com/devcontainers/cli) `devcontainer` reads the description, builds and starts the container
//! and runs its commands. This crate finds the description, starts the program, and lists what the container could do to this machine:
//! a description comes with the project, and it can name any directory, device or command of the machine.
//!
//! The program gets a private copy of the description that was checked, because the project may change at any time. Its environment
//! has only the variables that it needs itself, because a description can pass on every variable that the program has.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod error;
mod find;
mod mounts;
mod powers;
mod program;

pub use error::DevContainerError;
pub use find::{DevContainer, find};
pub use powers::Description;
pub use program::Environment;
