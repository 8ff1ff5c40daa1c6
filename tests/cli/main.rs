//! Command line as users and programs see it: output, streams and exit status.
//!
//! Output is compared with snapshots in which paths, digests, times and sizes are redacted.

#[cfg(target_os = "linux")]
mod audit;
#[cfg(unix)]
mod config;
mod everyday;
mod explain;
mod failures;
mod first_use;
#[cfg(target_os = "linux")]
mod host;
mod image;
#[cfg(target_os = "linux")]
mod installation;
mod json;
mod kernel;
mod meta;
mod output;
#[cfg(unix)]
mod projects;
mod results;
#[cfg(target_os = "linux")]
mod run_program;
mod runtime;
mod support;
mod terminal;
#[cfg(target_os = "linux")]
mod tool;
mod tracing;
#[cfg(target_os = "linux")]
mod vm;
