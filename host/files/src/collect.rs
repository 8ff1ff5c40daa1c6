//! What a job left in its working directory, brought out where the job says so.

use std::time::SystemTime;

use cap_std::fs::Dir;
use codebox_core::{FileChanges, GuestPath, HostPath, SkippedFile};

use crate::budget::Budget;
use crate::changes::changes;
use crate::inputs::Before;
use crate::open::open_linkless;
use crate::outputs::bring_out;

/// A directory as a job left it.
pub struct Left<'a> {
    /// The directory.
    pub dir: &'a Dir,
    /// Where guests see it.
    pub at: &'a GuestPath,
    /// Whose it is.
    pub owner: Owner,
    /// When the job began, as [`file_time`](crate::file_time) told it.
    pub since: SystemTime,
    /// What was put there for the job.
    pub before: &'a Before,
}

/// Whose directory a job worked in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The job's: made for it, and holding nothing but what it was given and made.
    Job,
    /// The user's, who granted it; a file in it may well have another name elsewhere.
    User,
}

/// Lists what a job changed below a directory and copies it to `out`, a directory of the host, where there is one.
///
/// At most `budget` is read for each of the two. Nothing that the job left is an error: what cannot be listed or
/// brought out is named with the reason.
#[must_use]
pub fn collect(left: &Left<'_>, out: Option<&HostPath>, mut budget: Budget) -> FileChanges {
    let mut found = changes(left, &mut budget.clone());
    let Some(to) = out else { return found };
    match open_linkless(&to.to_path_buf()) {
        Ok(out) => bring_out(&mut found, left, (&out, to), &mut budget),
        Err(e) => found
            .skipped
            .push(SkippedFile { name: to.as_str().as_bytes().to_vec(), reason: format!("cannot be opened: {e}") }),
    }
    found
}

#[cfg(test)]
mod tests;
