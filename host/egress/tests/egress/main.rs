//! Connections to servers on this machine's loopback, which is granted by itself.

mod connecting;
mod proxied;
mod support;
mod tls;
