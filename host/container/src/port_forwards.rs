//! Port forwards of a container: loopback ports inside the container, and their targets.
//!
//! A container has no network. The agent listens on loopback ports inside the container and carries the data over its
//! connection to this process, where [`Egress`](codebox_egress::Egress) checks the grants, connects and counts. One
//! port forward leads to an HTTP proxy, which the usual variables name. Each of the others leads to a granted host, for
//! programs that do not support proxies; `/etc/hosts` maps the host's name to the address of the port forward. The
//! container sends no DNS queries.

mod job_connections;
mod plan;

pub(crate) use job_connections::{JobConnections, NetworkEvent};
pub(crate) use plan::{PortForwards, Target};
