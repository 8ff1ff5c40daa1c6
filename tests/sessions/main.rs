//! Sessions: cells that share an interpreter, in this process and in workers.

#![cfg(target_os = "linux")]

mod audit;
mod blocks;
mod checkpoints;
mod command_line;
mod configured_tools;
mod containers;
mod decisions;
mod files;
mod isolation;
mod javascript;
mod python;
mod repl;
mod session_home;
mod support;
mod suspension;
mod tools;
