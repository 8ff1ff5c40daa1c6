//! The only network egress: connections to the hosts that a job was granted.
//!
//! An [`Egress`] belongs to one run. It checks a host's name before resolving it and each address afterwards
//! ([`NetRules`](codebox_core::NetRules)), and connects to a checked address instead of the name. It counts bytes, cuts
//! all connections when a limit is reached, and records every attempt with its result. The protocol over a connection
//! is up to the guest. [`TlsConnection`] terminates TLS on the host, [`TlsMachine`] does so for bytes that the caller
//! transports, and [`proxy::serve`] is a proxy for guests that use one. [`Secrets`] are put into requests in place of their
//! placeholders.
//!
//! - Invariant: no connection is made and no name is resolved that the rules do not allow.
//! - Invariant: this crate reads no environment variable, and waits without a time limit only for a connected, granted
//!   host.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(target_os = "linux")]
pub mod broker;
mod connection;
mod dial;
mod egress;
mod error;
mod ledger;
mod machine;
pub mod proxy;
mod relay;
mod roots;
mod secrets;
mod stream;
mod tls;

pub use connection::Connection;
pub use dial::{Dial, DialError, DialedStream, Dialer};
pub use egress::{Egress, EgressLimits};
pub use error::EgressError;
pub use machine::{TlsMachine, TlsOutput};
pub use relay::relay;
pub use roots::{RootsError, TlsRoots};
pub use secrets::{HostSecrets, Mask, RequestRewriter, SecretError, Secrets, Transport};
pub use tls::{TlsConnection, TlsFacts, TlsOffer, TlsVersions};
