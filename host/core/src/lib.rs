//! Values and traits that every part of codebox shares.
//!
//! A [`Job`] says what to run and what it may touch ([`Grants`], [`Limits`]); a [`Backend`] opens an
//! [`Instance`] that runs it and answers with a [`RunReport`]. Paths are values ([`PathMap`]), and what the
//! outside world reads is a separate, versioned form ([`wire::v1`]).
//!
//! Invariant: nothing here does I/O, reads the environment or knows an engine; a backend's own types never
//! appear in these signatures.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod backend;
mod capped;
mod grants;
mod image;
mod isolation;
mod job;
mod language;
mod limits;
mod name;
mod outcome;
pub mod path;
mod report;
pub mod wire;

pub use backend::{
    Backend, BackendError, BackendId, BoxFuture, BoxedError, CancelToken, Cancelled, Capabilities, ExecIo, Instance,
    InstanceSpec, Layer, MOST_WARM, OnCancel, OutputSink, PYTHON_PACKAGES, Support, Unavailable, WriteSink, Written,
};
pub use capped::{CappedSink, Kept};
pub use grants::{Access, DirGrant, DirGrantSpec, EnvName, GrantParseError, Grants, NetGrant, ToolName};
pub use image::{ImageName, ImagePattern};
pub use isolation::{Isolation, IsolationSet};
pub use job::{InputFile, Job, Source, Stdin};
pub use language::Language;
pub use limits::{
    ByteSize, Enforcement, Held, Limit, LimitKind, LimitOverrides, LimitParseError, Limits, Wall, WallState,
    parse_count, parse_duration, parse_size,
};
pub use name::{NameError, RuntimeName};
pub use outcome::{Outcome, ResultKind, TrapKind, exit, exit_status};
pub use path::{GuestPath, HostPath, NotMapped, PathMap, PathMapError, VmPath};
pub use report::{
    Captured, Denial, DenialKind, Effects, EscalatedFrom, FileChanges, FileKind, GuestError, MimeBundle, Missing,
    NeedsEscalation, OutFile, Provenance, Rendered, ResultRole, RunReport, SkippedFile, Usage,
};
