//! Fetching from an index or a registry on the loopback interface, and unpacking archives that mean harm.

mod fetch;
mod fetch_refusals;
mod fetching;
mod npm;
mod npm_registry;
mod support;
mod unpack;
mod unpack_refusals;
mod unpacking;
