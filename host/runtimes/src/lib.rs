//! Catalog of the language runtimes on a machine: the built-in ones, those that the user added, and their memory images.
//!
//! Runtimes are downloaded and unpacked by codebox-packages and prepared by codebox-wasm.

#![forbid(unsafe_code)]

mod added;
mod built_in;
mod catalog;
mod description;
mod download;
mod errors;

pub use catalog::RuntimeCatalog;
