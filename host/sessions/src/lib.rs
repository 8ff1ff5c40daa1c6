//! The process that keeps a user's sessions ([`serve`]), and its clients ([`Client`]).
//!
//! ```text
//! client                              session process                       workers
//!   create: admitted job ───────────▶ admit again, with the user's policy
//!   ◀──────────────────────────── id
//!   exec: id, cell ─────────────────▶ queue ──────────────────────────────▶ one for each session, confined
//!   ◀─────────── output, as it is written, and the report ◀────────────────
//! ```
//!
//! Each session is a [`codebox_runner::Session`], whose interpreter runs in a worker of its own. A session that is not used for
//! a while is saved to disk, and its worker ends. The process does the same with all sessions before it ends, so the next one
//! finds them. Requests arrive over a Unix socket in a directory that only the user can open, and from processes of the
//! same user.
//!
//! A [box](keep_box) has a process of its own, which its clients reach in the same way ([`BoxPlace`]).
#![cfg(unix)]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod boxes;
mod client;
mod connection;
mod exec;
mod journal;
mod keeper;
mod message;
mod place;
mod serve;
mod stored;
mod suspension;

pub use boxes::{BoxPlace, keep_box};
pub use client::{Client, ClientError};
pub use place::Place;
pub use serve::{Options, serve};
