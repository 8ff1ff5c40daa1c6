//! Connections to servers on this machine's loopback, which is granted by itself.

#[cfg(target_os = "linux")]
mod brokered;
mod connecting;
mod machine;
mod proxied;
mod support;
mod tls;
