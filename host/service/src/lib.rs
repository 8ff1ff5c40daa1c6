//! Decisions about a job, from request to plan, for the pipeline that runs it.
//!
//! [`admit`] turns a request into a job that is allowed to run, and reads every host file that it names once. [`analyze_program`]
//! has the program parsed once; [`choose`] selects a backend by the program's needs, and [`plan`](plan::plan) an image.
//! Both selections are pure and return their reasons. [`decide_escalation`] decides whether a job is run again in a container.
//!
//! This crate knows backends only as [`codebox_core::Backend`], the installed runtimes only as [`Catalog`] and the
//! packages only as [`PackageProvider`].

#![forbid(unsafe_code)]

pub mod admission;
pub mod audit;
pub mod catalog;
pub mod choice;
pub mod config;
pub mod doctor;
mod error;
pub mod image_choice;
pub mod journal;
pub mod levels;
pub mod limit_text;
mod missing_features;
pub mod needs;
pub mod packages;
pub mod plan;
mod router;
#[cfg(test)]
mod testing;

pub use admission::{
    Admitted, ContainerTarget, Denied, EnvRequest, EnvRequestError, Escalation, HostEnvironment, LinkPolicy,
    MAX_PROGRAM, Manifest, PackageNeeds, Policy, Preference, Process, Program, Project, Request, SecretOrigin,
    SecretRequest, SecretRequestError, SecretSource, admit, is_allowed_image, is_left_out, leads_out, open_output_file,
    read_env_file,
};
pub use audit::{AuditError, AuditLog, AuditRecord, Broken, Event, SessionAction, Verified};
pub use catalog::{Catalog, CatalogError, EntryState, ImageEntry, ImageOrigin, PackageSource, Removal, RuntimeEntry};
pub use choice::{
    EscalationDecision, ProgramAnalysis, RouteStep, TierRequirements, analyze_program, choose, decide_escalation,
    escalation_hint, mark_escalated, mark_rerun_with_all_code, missing_code, next,
};
pub use config::{ConfigError, Settings, narrow};
pub use doctor::{Check, CheckState, highest_severity};
pub use image_choice::{ImageChoice, ImageFacts, NoImage};
pub use journal::{Accepted, Audit, CallEntry, CellEntry, Entry, Journal, JournalError, JournalOptions, Record, State};
pub use missing_features::merge_missing;
pub use needs::{
    Capability, FirstImport, InvalidIsolationRequest, IsolationRequest, Need, Needs, SyntaxError, Weight, is_analyzed,
};
pub use packages::{
    EnvLookup, LayerTarget, PackageLayers, PackageProvider, StoredPackage, lock_path, may_request_packages,
};
pub use plan::{Plan, PlanError, plan};
pub use router::{Candidate, Choice, NoRoute, Rejected};
