//! Collection of a job's changes, with copies to an output directory.

use codebox_core::{FileChanges, HostPath, SkippedFile};

use crate::budget::Budget;
use crate::changes::changes;
use crate::open::open_dir_without_symlinks;
use crate::outputs::copy_outputs;
use crate::work_dir::JobWorkDir;

/// Lists the changes of a job below a directory and copies them to the host directory `out`, if given.
///
/// Listing and copying each read at most `budget`. The content of the directory never causes an error: entries that
/// cannot be listed or copied are returned with the reason.
#[must_use]
pub fn collect(work_dir: &JobWorkDir<'_>, out: Option<&HostPath>, mut budget: Budget) -> FileChanges {
    let mut found = changes(work_dir, &mut budget.clone());
    let Some(to) = out else { return found };
    match open_dir_without_symlinks(&to.to_path_buf()) {
        Ok(out) => copy_outputs(&mut found, work_dir, &out, to, &mut budget),
        Err(e) => found
            .skipped
            .push(SkippedFile { name: to.as_str().as_bytes().to_vec(), reason: format!("cannot be opened: {e}") }),
    }
    found
}

#[cfg(test)]
mod tests;
