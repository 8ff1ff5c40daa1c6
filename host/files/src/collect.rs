//! What a job left in its working directory, brought out where the job says so.

use std::time::SystemTime;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use codebox_core::{FileChanges, GuestPath, HostPath, SkippedFile};

use crate::budget::Budget;
use crate::changes::{Before, changes};
use crate::outputs::bring_out;

/// A directory as a job left it.
pub struct Left<'a> {
    /// The directory.
    pub dir: &'a Dir,
    /// Where guests see it.
    pub at: &'a GuestPath,
    /// When the job began, as [`file_time`](crate::file_time) told it.
    pub since: SystemTime,
    /// What was put there for the job.
    pub before: &'a Before,
}

/// Lists what a job changed below a directory and copies it to `out`, a directory of the host, where there is one.
///
/// At most `budget` is read for each of the two. Nothing that the job left is an error: what cannot be listed or
/// brought out is named with the reason.
#[must_use]
pub fn collect(left: &Left<'_>, out: Option<&HostPath>, mut budget: Budget) -> FileChanges {
    let mut found = changes(left, &mut budget.clone());
    let Some(to) = out else { return found };
    match Dir::open_ambient_dir(to.to_path_buf(), ambient_authority()) {
        Ok(out) => bring_out(&mut found, left, (&out, to), &mut budget),
        Err(e) => found
            .skipped
            .push(SkippedFile { name: to.as_str().as_bytes().to_vec(), reason: format!("cannot be opened: {e}") }),
    }
    found
}

#[cfg(test)]
mod tests;
