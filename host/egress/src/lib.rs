//! The one way out: connections to the hosts that a job was granted.
//!
//! [`Egress`] is made for one run. It judges a host before it is looked up and each address after that
//! ([`NetRules`](codebox_core::NetRules)), connects to an address that passed and never to the name again, counts what
//! goes over, cuts everything off where a limit is reached, and lists every attempt, whatever came of it. What a guest
//! speaks over a connection is its own matter; who wants the host to speak TLS for it gets a [`TlsConnection`], or a
//! [`TlsMachine`] for bytes that it carries itself, and who speaks to a proxy is served by [`proxy::serve`].
//!
//! - Invariant: nothing is connected to, and no name looked up, that the rules do not allow.
//! - Invariant: nothing here reads an environment variable or waits without a bound for anybody but a granted host that
//!   is connected.

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
mod stream;
mod tls;

pub use connection::Connection;
pub use dial::{Dial, DialError, Dialed, Dialer, direct};
pub use egress::{CONNECT_TIME, Egress, EgressLimits};
pub use error::EgressError;
pub use machine::{TlsMachine, Turned};
pub use relay::relay;
pub use roots::{RootsError, TlsRoots};
pub use tls::{TlsConnection, TlsFacts, TlsOffer, TlsVersions};
