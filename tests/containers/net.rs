//! C7: granted hosts are reachable, and no others; attempts are in the report.
//!
//! The servers run in this process, on the machine's loopback or in a separate namespace.

mod allowed;
mod ended;
mod limited;
mod names;
mod refused;
mod server;

use crate::row::{Row, row};

pub fn rows() -> Vec<Row> {
    vec![
        row("net::plain", allowed::plain),
        row("net::tls", allowed::tls),
        row("net::node", allowed::node).with_tool("unshare"),
        row("net::raw", allowed::raw).with_tool("unshare"),
        row("net::many", allowed::many),
        row("net::warm", allowed::warm),
        row("net::wildcard", allowed::wildcard).with_tool("unshare"),
        row("net::nothing_without_a_grant", refused::nothing_without_a_grant),
        row("net::no_more_than_before", refused::no_more_than_before),
        row("net::other_hosts", refused::other_hosts),
        row("net::redirects", refused::redirects),
        row("net::behind_a_name", refused::behind_a_name).with_tool("unshare"),
        row("C7::metadata", refused::metadata).with_tool("ip"),
        row("net::not_allowed", refused::not_allowed),
        row("net::bytes", limited::bytes),
        row("net::connections", limited::connections),
        row("net::stalled", limited::stalled),
        row("net::untaken", limited::untaken),
        row("net::both_ways", ended::both_ways),
        row("net::last_words", ended::last_words),
        row("net::cut", ended::cut),
        row("net::own", refused::own).with_tool("ip"),
    ]
}
