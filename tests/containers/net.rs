//! C7: granted hosts are reachable, and no others; attempts are in the report.
//!
//! The servers run in this process, on the machine's loopback or in a separate namespace.

mod allowed;
mod limited;
mod names;
mod refused;
mod server;
mod traffic;

use crate::row::{Row, row};

pub fn rows() -> Vec<Row> {
    vec![
        row("net::plain", allowed::plain),
        row("net::tls", allowed::tls),
        row("net::node", allowed::node).with_tool("unshare"),
        row("net::raw", allowed::raw).with_tool("unshare"),
        row("net::many_requests", allowed::many_requests),
        row("net::warm", allowed::warm),
        row("net::wildcard", allowed::wildcard).with_tool("unshare"),
        row("net::no_network_without_grant", refused::no_network_without_grant),
        row("net::isolated_except_grants", refused::isolated_except_grants),
        row("net::other_hosts", refused::other_hosts),
        row("net::redirects", refused::redirects),
        row("net::private_addresses_behind_names", refused::private_addresses_behind_names).with_tool("unshare"),
        row("C7::metadata", refused::metadata).with_tool("ip"),
        row("net::not_allowed_by_configuration", refused::not_allowed_by_configuration),
        row("net::bytes", limited::bytes),
        row("net::connections", limited::connections),
        row("net::stalled_server", limited::stalled_server),
        row("net::unread_data", limited::unread_data),
        row("net::bidirectional", traffic::bidirectional),
        row("net::data_before_exit", traffic::data_before_exit),
        row("net::reset_on_kill", traffic::reset_on_kill),
        row("net::own_address", refused::own_address).with_tool("ip"),
    ]
}
