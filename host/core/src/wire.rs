//! What codebox says to other programs: JSON forms with a version and a schema, apart from the types inside.
//!
//! Within a version, fields are only added; a change that could break a reader makes a new version.

pub mod v1;
