//! Boxes, each kept by a process of its own.
//!
//! ```text
//! client                          process of the box                      container
//!   exec: command ───────────────▶ rules, limits, audit ────────────────▶ agent ─▶ program
//!   ◀── output within the limits on output, and the report ◀──────────────
//! ```

mod client;
mod keeper;
mod log;
mod message;
mod place;
mod serve;

pub use keeper::keep_box;
pub use place::BoxPlace;
