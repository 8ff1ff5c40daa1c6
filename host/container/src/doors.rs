//! A container's ways out: where they begin inside, and where they lead.
//!
//! A container has no network. Inside it the agent listens at doors of its loopback, and carries what comes over the line
//! to here, where [`Egress`](codebox_egress::Egress) judges, connects and counts. One door is an HTTP proxy, which the
//! variables that programs know name; behind each of the others is a granted host, whose name `/etc/hosts` gives the door's
//! address, for programs that know no proxy. No name is looked up from inside.

mod plan;
mod ways;

pub(crate) use plan::{Doors, Target};
pub(crate) use ways::{Next, Ways};
