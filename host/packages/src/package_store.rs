//! Store of unpacked wheels, keyed by their content, and of environments made from them: read-only, shared by all
//! processes of a user.
//!
//! ```text
//! wheels/SHA256/           a wheel as it is installed: its modules and its metadata
//! compiled/KEY/SHA256/     the same modules as bytecode, for one runtime
//! environments/KEY/        the tree that a job sees: the wheels of one resolution
//! remembered/KEY.json      the cached answer to an index query
//! sources/SHA256/          an unpacked source distribution, to be built
//! built/SHA256/KEY.json    the wheel that was built from it, and the image
//! index/                   uv's own cache of index pages and metadata
//! ```
//!
//! Every entry is created in a directory next to its final path and renamed when it is complete. Any number of
//! processes may create entries at once; if two create the same one, the first to be renamed stays. Only removal waits
//! for all of them.

mod built;
mod install;
mod inventory;
mod source;
mod tree;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tempfile::Builder;

use crate::dir_lock;
use crate::error::{FetchError, UnpackError};
use crate::index::Index;
use crate::unpack::{UnpackLimits, unpack_wheel_within};
use crate::wheel::Wheel;
pub(crate) use built::{BuildImage, ImageChoice};
use codebox_core::Progress;
pub use inventory::PruneReport;
pub(crate) use source::UnpackedSdist;

/// Limits of one wheel: larger than any wheel of use to a job, smaller than a disk.
const WHEEL_LIMITS: UnpackLimits = UnpackLimits { bytes: 4 << 30, members: 60_000 };

/// Time for which a cached answer of an index is valid.
const ANSWER_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Additional validity of an expired answer when no index could be reached: a run queries indexes at several points,
/// and each query would wait for the unreachable index again.
const STALE_ANSWER_TTL: Duration = Duration::from_secs(5 * 60);

/// Maximum number of concurrent wheel downloads.
const MAX_CONCURRENT_DOWNLOADS: usize = 8;

/// Directory of an environment's modules, which a job sees.
const MODULES: &str = "modules";

/// Directory of an environment's programs. No job sees it, but the build of a source distribution may run them.
const PROGRAMS: &str = "programs";
/// Directory beside the modules of an environment with the programs that are machine code, as `pip install --target` has them.
const NATIVE_PROGRAMS: &str = "bin";

/// Store of packages on disk.
#[derive(Debug, Clone)]
pub(crate) struct PackageStore {
    root: PathBuf,
}

/// Error preparing packages.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// A wheel cannot be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// A wheel cannot be unpacked.
    #[error("cannot install {wheel}: {source}")]
    Unpack {
        /// The wheel.
        wheel: String,
        /// The cause.
        source: UnpackError,
    },
    /// A wheel's content does not match its name.
    #[error("cannot install {wheel}: {reason}")]
    Wheel {
        /// The wheel.
        wheel: String,
        /// The reason.
        reason: String,
    },
    /// A source distribution cannot be built.
    #[error("cannot build {file}: {reason}")]
    Source {
        /// The source distribution.
        file: String,
        /// The reason.
        reason: String,
    },
    /// A file operation failed.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// The operation that failed, as an infinitive.
        operation: &'static str,
        /// The path that it failed on.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl StoreError {
    pub(crate) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { operation, path, source }
    }
}

/// An environment that is ready. It cannot be pruned while this value lives.
#[derive(Debug)]
pub(crate) struct Environment {
    /// The directory with its modules.
    pub(crate) modules: PathBuf,
    /// The directory with the programs of its wheels, if they have any. The programs cannot be run from there.
    pub(crate) programs: Option<PathBuf>,
    /// Lock that protects the environment from pruning.
    #[expect(dead_code, reason = "the open file is the lock")]
    held: File,
}

/// A working directory, removed when the value is dropped.
#[derive(Debug)]
pub(crate) struct WorkDir {
    /// Lock that distinguishes the directory from the remains of a killed process. Declared first so that it is dropped
    /// first: some systems cannot remove an open file.
    #[expect(dead_code, reason = "the open file is the lock")]
    held: File,
    dir: tempfile::TempDir,
}

impl WorkDir {
    /// Returns the path of the directory.
    #[must_use]
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Name prefix of working directories, and the name of the lock file in them.
const WORK_DIR_PREFIX: &str = ".compiled-";
const LOCK_FILE: &str = ".held";

/// Description of an environment, stored beside its modules.
#[derive(Debug, Serialize, Deserialize)]
struct EnvironmentRecord {
    target: String,
    wheels: Vec<(String, String)>,
}

/// A cached answer.
#[derive(Serialize, Deserialize)]
struct CachedAnswer<T> {
    /// Time of the answer in seconds since 1970.
    at: u64,
    answer: T,
}

impl PackageStore {
    /// Creates a store rooted at this directory, without accessing the disk.
    #[must_use]
    pub(crate) fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// Returns the directory of uv's own cache.
    #[must_use]
    pub(crate) fn index_cache(&self) -> PathBuf {
        self.root.join("index")
    }

    /// Computes a key from the serialized form of a value.
    #[must_use]
    pub(crate) fn key(of: &impl Serialize) -> String {
        let digest = Sha256::digest(serde_json::to_vec(of).unwrap_or_default());
        digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the answer cached under a key, and true if it is still valid without a new query.
    pub(crate) fn cached_answer<T: DeserializeOwned>(&self, key: &str) -> Option<(T, bool)> {
        let text = fs::read(self.cached_answer_file(key)).ok()?;
        let CachedAnswer { at, answer } = serde_json::from_slice(&text).ok()?;
        let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + Duration::from_secs(at));
        Some((answer, age.is_ok_and(|age| age < ANSWER_TTL)))
    }

    /// Caches an answer. A write error is ignored: its only effect is another query the next time.
    pub(crate) fn cache_answer<T: Serialize>(&self, key: &str, answer: &T) {
        self.cache_answer_with_age(key, answer, Duration::ZERO);
    }

    /// Extends the validity of an expired answer by a few minutes, because no index could be reached.
    pub(crate) fn extend_cached_answer<T: Serialize>(&self, key: &str, answer: &T) {
        self.cache_answer_with_age(key, answer, ANSWER_TTL.saturating_sub(STALE_ANSWER_TTL));
    }

    /// Caches an answer as one of the given age.
    fn cache_answer_with_age<T: Serialize>(&self, key: &str, answer: &T, age: Duration) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let at = now.map_or(0, |now| now.saturating_sub(age).as_secs());
        let path = self.cached_answer_file(key);
        let _ = (|| -> io::Result<()> {
            let dir = path.parent().unwrap_or(&self.root);
            tree::create_private_dir(dir)?;
            let mut file = tempfile::NamedTempFile::new_in(dir)?;
            serde_json::to_writer(&mut file, &CachedAnswer { at, answer })?;
            file.persist(&path)?;
            Ok(())
        })();
    }

    fn cached_answer_file(&self, key: &str) -> PathBuf {
        self.root.join("remembered").join(format!("{key}.json"))
    }

    fn wheel_dir(&self, sha256: &str) -> PathBuf {
        self.root.join("wheels").join(sha256)
    }

    /// Returns the directory of a wheel's modules, which exists once the wheel is in the store.
    #[must_use]
    pub(crate) fn modules_dir(&self, wheel: &Wheel) -> PathBuf {
        self.wheel_dir(&wheel.sha256).join(MODULES)
    }

    /// Returns the wheels that are not in the store yet.
    #[must_use]
    pub(crate) fn missing<'w>(&self, wheels: &'w [Wheel]) -> Vec<&'w Wheel> {
        wheels.iter().filter(|wheel| !self.modules_dir(wheel).is_dir()).collect()
    }

    /// Fetches and unpacks the wheels that are not in the store yet.
    ///
    /// # Errors
    /// The first wheel that cannot be fetched or is refused; wheels stored before that stay.
    pub(crate) async fn download(
        &self,
        wheels: &[Wheel],
        index: &Index<'_>,
        progress: &dyn Progress,
    ) -> Result<(), StoreError> {
        if self.missing(wheels).is_empty() {
            return Ok(());
        }
        let _guard = self.acquire_shared_lock()?;
        let missing = self.missing(wheels);
        let staging = self.root.join("wheels");
        tree::create_private_dir(&staging).map_err(StoreError::io("create", &staging))?;
        let fetched = stream::iter(missing).map(|wheel| async move {
            let made = Builder::new().prefix(".wheel-").tempdir_in(self.root.join("wheels"));
            let made = made.map_err(StoreError::io("create a directory in", &self.root))?;
            let file = made.path().join("wheel.whl");
            index.download(wheel, &file, progress).await?;
            self.unpack(wheel, &file, made.path())
        });
        fetched.buffer_unordered(MAX_CONCURRENT_DOWNLOADS).try_collect::<()>().await
    }

    /// Unpacks a verified wheel into the store.
    fn unpack(&self, wheel: &Wheel, file: &Path, made: &Path) -> Result<(), StoreError> {
        let unpacked_dir = made.join("whole");
        let unpacked = unpack_wheel_within(&WHEEL_LIMITS, file, &[""], &unpacked_dir, &codebox_core::Silent);
        unpacked.map_err(|source| StoreError::Unpack { wheel: wheel.file.clone(), source })?;
        let ready = made.join("ready");
        let modules = ready.join(MODULES);
        install::install(wheel, &unpacked_dir, &modules)?;
        let entry_dir = self.wheel_dir(&wheel.sha256);
        tree::rename_into_place(&ready, &entry_dir).map_err(StoreError::io("write", &entry_dir))
    }

    /// Returns the wheels that have no bytecode for a runtime yet.
    #[must_use]
    pub(crate) fn uncompiled<'w>(&self, wheels: &'w [Wheel], runtime: &str) -> Vec<&'w Wheel> {
        wheels.iter().filter(|wheel| !self.compiled_dir(wheel, runtime).is_dir()).collect()
    }

    fn compiled_dir(&self, wheel: &Wheel, runtime: &str) -> PathBuf {
        self.root.join("compiled").join(runtime).join(&wheel.sha256)
    }

    /// Creates a directory to compile or build in, which is removed with the returned value.
    ///
    /// # Errors
    /// When the directory cannot be created.
    pub(crate) fn create_work_dir(&self) -> Result<WorkDir, StoreError> {
        let parent_dir = self.root.join("compiled");
        tree::create_private_dir(&parent_dir).map_err(StoreError::io("create", &parent_dir))?;
        let made = || {
            let dir = Builder::new().prefix(WORK_DIR_PREFIX).tempdir_in(&parent_dir)?;
            let held = File::create(dir.path().join(LOCK_FILE))?;
            held.lock()?;
            Ok(WorkDir { held, dir })
        };
        made().map_err(StoreError::io("create a directory in", &parent_dir))
    }

    /// Copies a wheel's bytecode, a tree of files that mirrors its modules, from a workbench into the store. Only
    /// regular bytecode files are copied.
    ///
    /// # Errors
    /// When the bytecode cannot be stored.
    pub(crate) fn store_compiled(&self, wheel: &Wheel, runtime: &str, from: &Path) -> Result<(), StoreError> {
        let entry_dir = self.compiled_dir(wheel, runtime);
        let parent = entry_dir.parent().unwrap_or(&self.root);
        tree::create_private_dir(parent).map_err(StoreError::io("create", parent))?;
        let staged =
            Builder::new().prefix(WORK_DIR_PREFIX).tempdir_in(parent).map_err(StoreError::io("write", parent))?;
        let ready = staged.path().join("ready");
        tree::copy_bytecode(from, &ready).map_err(StoreError::io("copy", from))?;
        tree::rename_into_place(&ready, &entry_dir).map_err(StoreError::io("write", &entry_dir))
    }

    /// Returns the environment of these wheels for a target, and creates it if it does not exist. All of the wheels
    /// must be in the store.
    ///
    /// `compiled` names the runtime whose bytecode is included. `library` lists names of the interpreter's own modules,
    /// for runtimes that search packages before these: top-level modules of packages with one of these names are left
    /// out. A regular interpreter, which searches its own modules first, ignores them as well.
    ///
    /// # Errors
    /// When the environment cannot be created.
    pub(crate) fn environment(
        &self,
        wheels: &[Wheel],
        target: &str,
        compiled: Option<&str>,
        library: &[String],
    ) -> Result<Environment, StoreError> {
        let named: Vec<_> = wheels.iter().map(|wheel| (&wheel.name, &wheel.version, &wheel.sha256)).collect();
        let key = Self::key(&(&named, target, compiled, library, NATIVE_PROGRAMS));
        let entry_dir = self.root.join("environments").join(key);
        if let Some(environment) = self.open_environment(&entry_dir)? {
            return Ok(environment);
        }
        let _guard = self.acquire_shared_lock()?;
        let parent_dir = self.root.join("environments");
        tree::create_private_dir(&parent_dir).map_err(StoreError::io("create", &parent_dir))?;
        let staged = Builder::new().prefix(".environment-").tempdir_in(&parent_dir);
        let staged = staged.map_err(StoreError::io("create a directory in", &parent_dir))?;
        let ready = staged.path().join("ready");
        let modules = ready.join(MODULES);
        fs::create_dir_all(&modules).map_err(StoreError::io("create", &modules))?;
        for wheel in wheels {
            let from = self.modules_dir(wheel);
            // The wheel may have been stored under another name.
            install::check_name_and_version(wheel, &from)?;
            tree::link_tree(&from, &modules, library).map_err(StoreError::io("link", &from))?;
            let programs = from.with_file_name(PROGRAMS);
            if programs.is_dir() {
                tree::link_tree(&programs, &ready.join(PROGRAMS), &[]).map_err(StoreError::io("link", &programs))?;
                let native = modules.join(NATIVE_PROGRAMS);
                tree::copy_native_programs(&programs, &native).map_err(StoreError::io("copy", &programs))?;
            }
            if let Some(runtime) = compiled {
                let from = self.compiled_dir(wheel, runtime);
                if from.is_dir() {
                    tree::link_tree(&from, &modules, library).map_err(StoreError::io("link", &from))?;
                }
            }
        }
        let wheels = wheels.iter().map(|wheel| (wheel.file.clone(), wheel.sha256.clone())).collect();
        let record = EnvironmentRecord { target: target.to_owned(), wheels };
        let text = serde_json::to_vec_pretty(&record).unwrap_or_default();
        fs::write(ready.join(inventory::RECORD_FILE), text).map_err(StoreError::io("write", &ready))?;
        tree::rename_into_place(&ready, &entry_dir).map_err(StoreError::io("write", &entry_dir))?;
        let not_found = || StoreError::io("open", &entry_dir)(io::ErrorKind::NotFound.into());
        self.open_environment(&entry_dir)?.ok_or_else(not_found)
    }

    /// Opens and locks the environment at a path, if it exists.
    fn open_environment(&self, entry_dir: &Path) -> Result<Option<Environment>, StoreError> {
        let (modules, programs) = (entry_dir.join(MODULES), entry_dir.join(PROGRAMS));
        let programs = programs.is_dir().then_some(programs);
        let held = open_locked(entry_dir, inventory::RECORD_FILE)?;
        Ok(held.map(|held| Environment { modules, programs, held }).filter(|environment| environment.modules.is_dir()))
    }

    /// Acquires the shared lock, which protects all entries, including later ones, from removal until it is dropped. A
    /// caller that selects wheels, fetches them and then creates an environment of them holds it throughout.
    ///
    /// # Errors
    /// When the lock file cannot be opened or locked.
    pub(crate) fn acquire_shared_lock(&self) -> Result<File, StoreError> {
        tree::create_private_dir(&self.root).map_err(StoreError::io("create", &self.root))?;
        dir_lock::acquire_shared_lock(&self.root).map_err(StoreError::io("lock", &self.root))
    }
}

/// Opens the file that describes an entry, if it exists, and locks it against pruning.
fn open_locked(entry_dir: &Path, name: &str) -> Result<Option<File>, StoreError> {
    match File::open(entry_dir.join(name)) {
        Ok(file) => {
            file.lock_shared().map_err(StoreError::io("lock", entry_dir))?;
            Ok(Some(file))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("open", entry_dir)(error)),
    }
}
