//! Paths as values: three kinds that the compiler keeps apart, and maps between them.
//!
//! Nothing here looks at a file system. A host path is made absolute and free of links once, when a grant is
//! admitted; from then on it is only compared, component by component. Two spellings of one name that differ
//! in bytes (say, in Unicode normalisation) are two names here, as they are to Linux; only Windows paths
//! compare without regard to case.

mod compose;
mod guest;
mod host;
mod json;
mod kind;
mod map;
mod overlap;
mod redact;
mod vm;
mod windows;

pub use guest::GuestPath;
pub use host::{HostPath, Style};
pub use json::{Direction, MapJsonError, MaxDepth};
pub use kind::{MappedPath, PathError};
pub use map::{Mount, NotMapped, PathMap, PathMapError};
pub use overlap::{ForbiddenGrant, OverlapError, Protected, Reach, forbidden_grant, forbidden_grant_among, settle};
pub use vm::VmPath;
