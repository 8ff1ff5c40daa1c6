//! Observation of what imports use of their surroundings while an image is made.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rand::{Rng, TryRng};
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtxBuilder};

/// Maximum number of paths that are recorded, those before the imports included.
const MAX_KEPT: usize = 4096;

/// Record of the surroundings that a guest has used so far.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    random: AtomicU64,
    date: AtomicU64,
    time: AtomicU64,
    input: AtomicU64,
    network: AtomicU64,
    missing: AtomicU64,
    files: Mutex<Vec<String>>,
}

/// Maximum number and length of the paths that are kept.
pub(crate) const MAX_PATHS: usize = 64;
pub(crate) const MAX_PATH_LEN: usize = 512;

/// Copy of a record at some time.
pub(crate) struct Uses {
    calls: [u64; 6],
    files: Vec<String>,
}

impl Uses {
    /// Returns the first use since an earlier time that prevents an image, as the end of a sentence.
    pub(crate) fn first_since(&self, before: &Self) -> Option<String> {
        let call = self.first_call_since(
            before,
            &["random numbers", "the date", "input", "the network", "features that are missing", "the time"],
        );
        let is_refused = |path: &&String| path.as_str() == "/" || path.starts_with("/dev") || path.len() > MAX_PATH_LEN;
        call.or_else(|| self.files_since(before).iter().find(is_refused).map(|path| format!("look for {path:?}")))
            .or_else(|| (self.files_since(before).len() > MAX_PATHS).then(|| "look for many files".to_owned()))
    }

    /// Returns the first of the kinds of calls, as the end of a sentence, with more calls than at an earlier time. The last kinds can
    /// be left out.
    pub(crate) fn first_call_since(&self, before: &Self, kinds: &[&str]) -> Option<String> {
        let calls = self.calls.iter().zip(&before.calls);
        calls.zip(kinds).find(|((now, before), _)| now > before).map(|(_, kind)| format!("use {kind}"))
    }

    /// Returns the paths that were looked up since an earlier time, and that may exist only in some jobs.
    pub(crate) fn files_since(&self, before: &Self) -> &[String] {
        self.files.get(before.files.len()..).unwrap_or_default()
    }
}

impl Witness {
    /// Returns the uses so far.
    pub(crate) fn uses(&self) -> Uses {
        let counts = [&self.random, &self.date, &self.input, &self.network, &self.missing, &self.time];
        let calls = counts.map(|count| count.load(Ordering::Relaxed));
        Uses { calls, files: self.files.lock().unwrap_or_else(PoisonError::into_inner).clone() }
    }

    /// Makes a guest's requests pass through this witness.
    pub(crate) fn observe(self: &Arc<Self>, builder: &mut WasiCtxBuilder) {
        builder.secure_random(CountedRandom(Arc::clone(self)));
        builder.wall_clock(CountedWallClock(Arc::clone(self)));
        builder.monotonic_clock(CountedMonotonicClock(Arc::clone(self), Instant::now()));
    }

    /// Records a read of standard input.
    pub(crate) fn read_input(&self) {
        self.input.fetch_add(1, Ordering::Relaxed);
    }

    /// Records a request to the network.
    pub(crate) fn use_network(&self) {
        self.network.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that the guest reported an error or a missing feature.
    pub(crate) fn report(&self) {
        self.missing.fetch_add(1, Ordering::Relaxed);
    }

    /// Records a path relative to the root that the guest looks up, unless all jobs find the same there.
    pub(crate) fn look_up(&self, path: &str) {
        let mut names = Vec::new();
        for name in path.split('/').filter(|name| !matches!(*name, "" | ".")) {
            match name {
                ".." => drop(names.pop()),
                _ => names.push(name),
            }
        }
        // Imports look for modules in the working directory.
        let is_same = match *names {
            ["usr" | "work" | "tmp"] | ["usr", "local"] | ["usr", "local", "lib", ..] => true,
            // Code without a file has such names.
            ["work", name] => name.starts_with('<') && name.ends_with('>'),
            _ => false,
        };
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_same && files.len() < MAX_KEPT {
            files.push(format!("/{}", names.join("/")));
        }
    }
}

/// The generator of all guests, with its requests counted.
struct CountedRandom(Arc<Witness>);

impl TryRng for CountedRandom {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.0.random.fetch_add(1, Ordering::Relaxed);
        Ok(rand::rng().next_u32())
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0.random.fetch_add(1, Ordering::Relaxed);
        Ok(rand::rng().next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.random.fetch_add(1, Ordering::Relaxed);
        rand::rng().fill_bytes(bytes);
        Ok(())
    }
}

/// The system's clock, with its requests counted.
struct CountedWallClock(Arc<Witness>);

impl HostWallClock for CountedWallClock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        self.0.date.fetch_add(1, Ordering::Relaxed);
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }
}

/// The time since a guest's start, with its requests counted.
struct CountedMonotonicClock(Arc<Witness>, Instant);

impl HostMonotonicClock for CountedMonotonicClock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        self.0.time.fetch_add(1, Ordering::Relaxed);
        u64::try_from(self.1.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_paths_that_differ_between_jobs() {
        for (path, recorded) in [
            ("usr/local/lib/python3.13/json", None),
            ("/usr/local/lib/codebox/site-packages/a.py", None),
            ("usr", None),
            ("work/./", None),
            ("work/<string>", None),
            ("work/a.py", Some("/work/a.py")),
            ("usr/local/../../work//a.py", Some("/work/a.py")),
            ("tmp/matplotlib", Some("/tmp/matplotlib")),
            ("etc/mime.types", Some("/etc/mime.types")),
            ("", Some("/")),
        ] {
            let (witness, before) = (Witness::default(), Witness::default().uses());
            witness.look_up(path);
            let uses = witness.uses();
            assert_eq!(uses.files_since(&before).first().map(String::as_str), recorded, "{path:?}");
        }
    }

    #[test]
    fn refuses_devices_and_many_paths() {
        let refused = |paths: &[String]| {
            let (witness, before) = (Witness::default(), Witness::default().uses());
            paths.iter().for_each(|path| witness.look_up(path));
            witness.uses().first_since(&before).is_some()
        };
        assert!(refused(&["dev/urandom".to_owned()]) && refused(&[String::new()]) && refused(&["x".repeat(1000)]));
        let many = |count: usize| (0..count).map(|number| format!("etc/{number}")).collect::<Vec<_>>();
        assert!(!refused(&many(MAX_PATHS)) && refused(&many(MAX_PATHS + 1)) && refused(&many(1000)));
    }
}
