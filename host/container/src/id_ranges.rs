//! Lock around engine calls that read the ID ranges of the engine's user.
//!
//! A rootless Podman reads `/etc/subuid` with libsubid, which keeps its position in the file in static variables. Two calls at one
//! time crash the whole service, for example the creation of two containers with `keep-id` by Podman 4.3.

use std::fs::File;
use std::time::Duration;

use crate::facts_cache::FactsCache;

/// Pause between two attempts to take the lock.
const PAUSE: Duration = Duration::from_millis(5);

impl FactsCache {
    /// Waits until no other process of this home makes such a call to the engine at an address. The returned file holds the lock; it is
    /// `None` if the file cannot be made, and the call goes on without it then.
    pub(crate) async fn lock_id_ranges(&self, place: &str) -> Option<File> {
        let path = self.file(place, "lock");
        codebox_files::private_dir(path.parent()?).ok()?;
        let file = File::options().create(true).truncate(false).write(true).open(path).ok()?;
        // Attempts instead of a blocking call, which could not be cancelled.
        loop {
            match file.try_lock() {
                Ok(()) => return Some(file),
                Err(std::fs::TryLockError::WouldBlock) => tokio::time::sleep(PAUSE).await,
                Err(std::fs::TryLockError::Error(_)) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_call_at_a_time_per_engine() {
        let dir = tempfile::tempdir().expect("a directory");
        let cache = || FactsCache::in_dir(dir.path().join("engines"));
        let first = cache().lock_id_ranges("a").await.expect("the lock");
        assert!(cache().lock_id_ranges("b").await.is_some(), "another engine");
        let other = cache();
        let mut second = Box::pin(other.lock_id_ranges("a"));
        assert!(tokio::time::timeout(4 * PAUSE, &mut second).await.is_err(), "it is held");
        drop(first);
        assert!(second.await.is_some());
    }
}
