//! The command line as users and programs meet it: what it prints, where, and with what status.
//!
//! Output is compared with snapshots in which paths, digests, times and sizes are redacted.

mod explain;
mod failures;
mod first_use;
mod image;
mod json;
mod meta;
mod output;
mod runtime;
mod support;
