//! Execution of a job, from request to report, for front ends: command line, library and servers.
//!
//! [`admit`] turns a request into a job that is allowed to run, and reads every host file that it names once. [`look`]
//! has the program parsed once; [`choose`] selects a backend by the program's needs and [`plan_of`] an image. Both
//! selections are pure and return their reasons. [`prepare`] opens the guest, and [`Prepared::exec`] runs the program.
//! Between the two calls the caller may confine the process.
//!
//! This crate knows backends only as [`codebox_core::Backend`] and the installed runtimes only as [`Catalog`]; the
//! composition root supplies both.

#![forbid(unsafe_code)]

mod absent;
pub mod admission;
pub mod catalog;
pub mod choice;
pub mod config;
pub mod doctor;
pub mod image_choice;
pub mod journal;
pub mod needs;
pub mod router;
pub mod run;
#[cfg(test)]
mod testing;

pub use admission::{
    Admitted, Denied, EnvRequest, MAX_PROGRAM, PackageNeeds, Policy, Preference, Process, Program, Request, SCRIPT_DIR,
    Surroundings, admit,
};
pub use catalog::{
    Catalog, CatalogError, EntryState, ImageEntry, ImageOrigin, PackageSource, Progress, Removal, RuntimeEntry, Silent,
};
pub use choice::{
    After, Candidate, Escalation, Looked, Next, Terms, Wanted, after, choose, look, look_at, mark_escalated, next,
    unmet,
};
pub use config::{ConfigError, Settings, narrow};
pub use doctor::{Check, CheckState, worst};
pub use image_choice::{ImageChoice, ImageFacts, NoImage, choose_image, default_image, named_image};
pub use journal::{Accepted, Entry, Journal, JournalError, Record, State};
pub use needs::{Ask, BadAsk, Need, Needs, Neighbours, Power, SyntaxFault, Weight, is_analyzed, needs_of};
pub use router::{Bound, Choice, Demand, Network, NoRoute, Probed, Rejected, probe, route};
pub use run::{Plan, PlanError, Prepared, backend_fix, image_for, plan, plan_of, prepare, run};
