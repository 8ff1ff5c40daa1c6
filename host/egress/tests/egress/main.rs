//! Connections to servers on this machine's loopback, which requires a grant of its own.

#[cfg(target_os = "linux")]
mod broker;
mod connect;
mod machine;
mod proxy;
mod support;
mod tls;
