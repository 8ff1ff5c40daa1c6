//! Sessions: cells that share an interpreter, in this process and in workers.

#![cfg(target_os = "linux")]

mod checkpoints;
mod python;
mod support;
