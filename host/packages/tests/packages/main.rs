//! Tests of downloads from an index or a registry on the loopback interface, and of unpacking malicious archives.

mod fetch;
mod fetch_refusals;
mod fetch_support;
mod npm;
mod npm_registry;
mod support;
mod unpack;
mod unpack_refusals;
mod unpack_support;
