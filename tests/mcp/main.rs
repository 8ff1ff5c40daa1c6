//! The MCP server, by its messages and with the official clients.

#![cfg(target_os = "linux")]

mod client;
mod clients;
mod messages;
mod servers;
