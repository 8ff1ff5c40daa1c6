//! Connections to servers on this machine's loopback, which requires a grant of its own.

#[cfg(target_os = "linux")]
mod brokered;
mod connecting;
mod machine;
mod proxied;
mod support;
mod tls;
