//! Paths as values: three path types that the compiler keeps apart, and maps between them.
//!
//! This module never accesses a file system. A host path is made absolute and free of symbolic links once, when a grant
//! is admitted; afterwards it is only compared, component by component. Two spellings of one name that differ in bytes,
//! for example in Unicode normalisation, are two names here, as on Linux. Only Windows paths compare without regard to
//! case.

mod compose;
mod dir_grant;
mod guest;
mod host;
mod json;
mod kind;
mod map;
mod overlap;
mod redact;
mod vm;
mod windows;

pub use dir_grant::{Access, DirGrant};
pub use guest::GuestPath;
pub use host::{HostPath, Style};
pub use json::{Direction, MapJsonError, MaxDepth, PathMarks};
pub use kind::{MappedPath, PathError};
pub use map::{Mount, NotMapped, PathMap, PathMapError};
pub use overlap::{
    ForbiddenGrant, OverlapError, ProtectedDir, ProtectionScope, forbidden_grant, forbidden_grant_among,
    resolve_overlaps,
};
pub use vm::VmPath;
