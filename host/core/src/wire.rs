//! JSON output of codebox for other programs: versioned types with a schema, separate from the internal types.
//!
//! Within a version, fields are only added; a change that could break a reader requires a new version.

pub mod v1;
