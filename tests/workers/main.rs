//! Workers of the library: jobs in processes of their own equal jobs in this process, confine themselves, and end like them.

#![cfg(target_os = "linux")]

mod ends;
mod equality;
mod support;
