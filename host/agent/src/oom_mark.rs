//! What the kernel is to take first when memory runs out: the job, and not the agent that has to tell of it.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

/// This process's own mark, which its children inherit.
#[derive(Clone)]
pub(crate) struct OomMark(Arc<Mutex<io::Result<File>>>);

impl OomMark {
    pub(crate) fn open() -> Self {
        let file = File::options().read(true).write(true).open("/proc/self/oom_score_adj");
        Self(Arc::new(Mutex::new(file)))
    }

    /// Does something with the mark at its highest. Taking it back from oneself needs no power, since nobody who has one
    /// raised it. Where it cannot be written, the kernel takes the largest, which is hardly the agent.
    pub(crate) fn while_raised<T>(&self, act: impl FnOnce() -> T) -> T {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        set(&mut file, "1000");
        let done = act();
        set(&mut file, "0");
        done
    }
}

fn set(file: &mut io::Result<File>, mark: &str) {
    if let Ok(file) = file {
        let _ = file.rewind().and_then(|()| file.write_all(mark.as_bytes()));
    }
}
