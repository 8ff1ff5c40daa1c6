//! A Jupyter kernel: cells that a notebook editor sends run in one session.
//!
//! [`serve`] speaks the [protocol of Jupyter](https://jupyter-client.readthedocs.io/en/stable/messaging.html), version 5.3, and [`Spec`] makes
//! a kernel known to editors. The messages and sockets are those of the crates `jupyter-protocol` and `jupyter-zmq-client`.
//!
//! Messages of clients are checked by their signature; one that is not signed, or malformed, is dropped. Messages of cells are as untrusted
//! as their output.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod channels;
mod execution;
mod input;
mod interactive;
mod is_complete;
mod kernel;
mod language;
mod outputs;
mod publication;
mod spec;

pub use channels::{ConnectionFile, JupyterError};
pub use interactive::{Completions, complete_cell, completions_of};
pub use is_complete::is_complete;
pub use kernel::{Describe, Options, Stop, serve};
pub use spec::Spec;
