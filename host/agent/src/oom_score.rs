//! The OOM score of processes: the kernel kills the job before the agent, which has to report the end of the job.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

/// The `oom_score_adj` of this process, which its children inherit.
#[derive(Clone)]
pub(crate) struct OomScore(Arc<Mutex<io::Result<File>>>);

impl OomScore {
    pub(crate) fn open() -> Self {
        let file = File::options().read(true).write(true).open("/proc/self/oom_score_adj");
        Self(Arc::new(Mutex::new(file)))
    }

    /// Calls `operation` with the score at its maximum. A process may lower its own score again without privilege, because no
    /// privileged process has raised it. If the score cannot be written, the kernel kills the largest process, which is
    /// hardly ever the agent.
    pub(crate) fn while_raised<T>(&self, operation: impl FnOnce() -> T) -> T {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        set(&mut file, "1000");
        let done = operation();
        set(&mut file, "0");
        done
    }
}

fn set(file: &mut io::Result<File>, oom_score: &str) {
    if let Ok(file) = file {
        let _ = file.rewind().and_then(|()| file.write_all(oom_score.as_bytes()));
    }
}
