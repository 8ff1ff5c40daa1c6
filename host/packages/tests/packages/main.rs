//! Fetching from an index on the loopback interface, and unpacking archives that mean harm.

mod fetch;
mod fetch_refusals;
mod fetching;
mod support;
mod unpack;
mod unpack_refusals;
mod unpacking;
