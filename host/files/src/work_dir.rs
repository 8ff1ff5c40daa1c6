//! The working directory of a job.

use std::time::SystemTime;

use cap_std::fs::Dir;
use codebox_core::{GuestPath, OutGuard};

use crate::inputs::InputManifest;

/// A working directory after a job has run.
pub struct JobWorkDir<'a> {
    /// The directory.
    pub dir: &'a Dir,
    /// The guest path of the directory.
    pub at: &'a GuestPath,
    /// The owner of the directory.
    pub owner: Owner,
    /// The start of the job, as returned by [`file_time`](crate::file_time).
    pub since: SystemTime,
    /// The input files of the job.
    pub before: &'a InputManifest,
    /// The treatment of files that the output directory already has.
    pub guard: OutGuard,
}

/// The owner of a job's working directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The job. The directory was created for it and contains only its inputs and outputs.
    Job,
    /// The user, who granted the directory. Its files may have other names elsewhere.
    User,
}
