//! Files whose change ends the host process.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::program::ProgramId;

/// Files whose change ends the process: this program, and those of the options.
pub(super) struct WatchedFiles {
    pub program: ProgramId,
    program_path: PathBuf,
    others: Vec<(PathBuf, Option<SystemTime>)>,
}

impl WatchedFiles {
    pub(super) fn new(paths: &[PathBuf]) -> io::Result<Self> {
        let others = paths.iter().map(|path| (path.clone(), change_of(path))).collect();
        Ok(Self { program: ProgramId::of_this_process()?, program_path: std::env::current_exe()?, others })
    }

    pub(super) fn is_program_replaced(&self) -> bool {
        ProgramId::of_file(&self.program_path).ok() != Some(self.program)
    }

    pub(super) fn have_changed(&self) -> bool {
        self.others.iter().any(|(path, time)| change_of(path) != *time)
    }
}

/// Returns the time of the last change of a file; `None` if it is missing.
fn change_of(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).ok()?.modified().ok()
}
