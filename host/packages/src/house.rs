//! Wheels unpacked once, by their content, and environments made of them: read-only, shared by every process of a user.
//!
//! ```text
//! wheels/SHA256/           a wheel as it is installed: its modules and its metadata
//! compiled/KEY/SHA256/     the same modules as bytecode, for one runtime
//! environments/KEY/        what a job sees: the wheels of one resolution, in one tree
//! remembered/KEY.json      what a question to an index came to
//! sources/SHA256/          a source distribution as it was unpacked, to be built
//! built/SHA256/KEY.json    which wheel was built of it, and where
//! index/                   uv's own cache of index pages and metadata
//! ```
//!
//! Everything is made in a directory beside its place and renamed when it is whole. Any number of processes make things at
//! once, and of two that make the same the first is as good; only removing waits for all of them.

mod arrange;
mod built;
mod keep;
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

use crate::error::{FetchError, UnpackError};
use crate::progress::Progress;
use crate::resolve::{Index, Wheel};
use crate::turns;
use crate::unpack::{UnpackLimits, unpack_wheel_within};
pub use built::{BuildPlace, ImageChoice};
pub use keep::{Kept, Pruned};
pub use source::Unpacked;

/// What one wheel may hold: larger than any that is of use to a job, smaller than a disk.
const LIMITS: UnpackLimits = UnpackLimits { bytes: 4 << 30, members: 60_000 };

/// How long an answer of an index is believed without asking again.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// How long an older one is believed once more where none could be asked: a run asks in more than one place, and each time waits
/// for whoever does not answer.
const ONCE_MORE: Duration = Duration::from_secs(5 * 60);

/// Wheels fetched at one time.
const AT_ONCE: usize = 8;

/// The tree of an environment that a job sees.
const MODULES: &str = "modules";

/// The programs of an environment, which no job sees: what is built with it may start them.
const PROGRAMS: &str = "programs";

/// Where packages are kept.
#[derive(Debug, Clone)]
pub struct House {
    root: PathBuf,
}

/// Why packages could not be made ready.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HouseError {
    /// A wheel could not be had.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// A wheel could not be unpacked.
    #[error("cannot install {wheel}: {source}")]
    Unpack {
        /// The wheel.
        wheel: String,
        /// Why.
        source: UnpackError,
    },
    /// A wheel is not what its name says.
    #[error("cannot install {wheel}: {reason}")]
    Wheel {
        /// The wheel.
        wheel: String,
        /// Why.
        reason: String,
    },
    /// A source distribution cannot be built.
    #[error("cannot build {file}: {reason}")]
    Source {
        /// The source distribution.
        file: String,
        /// Why.
        reason: String,
    },
    /// A file could not be used.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl HouseError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}

/// An environment that is ready, and stays while this value lives.
#[derive(Debug)]
pub struct Environment {
    /// The directory with its modules.
    pub modules: PathBuf,
    /// The directory with the programs that its wheels bring, if they bring any. None of them can be run where it is.
    pub programs: Option<PathBuf>,
    /// Held, so that nobody prunes it.
    #[expect(dead_code, reason = "the open file is the lock")]
    held: File,
}

/// A directory to work in, which is gone with the value.
#[derive(Debug)]
pub struct Workbench {
    /// Held, so that nobody takes it for what a killed process left. Let go of first: not every system removes what is open.
    #[expect(dead_code, reason = "the open file is the lock")]
    held: File,
    dir: tempfile::TempDir,
}

impl Workbench {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// What the names of such directories begin with, and the file in them that is held.
const BENCH: &str = ".compiled-";
const HELD: &str = ".held";

/// An environment as it is described beside its modules.
#[derive(Debug, Serialize, Deserialize)]
struct Described {
    target: String,
    wheels: Vec<(String, String)>,
}

/// An answer that is kept.
#[derive(Serialize, Deserialize)]
struct Remembered<T> {
    /// Seconds since 1970.
    at: u64,
    answer: T,
}

impl House {
    /// A place below this directory; touches nothing.
    #[must_use]
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// Where uv's own cache is.
    #[must_use]
    pub fn index_cache(&self) -> PathBuf {
        self.root.join("index")
    }

    /// A key out of anything that can be told apart.
    #[must_use]
    pub fn key(of: &impl Serialize) -> String {
        let digest = Sha256::digest(serde_json::to_vec(of).unwrap_or_default());
        digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// What was remembered under a key, and whether it is fresh enough not to ask again.
    pub fn remembered<T: DeserializeOwned>(&self, key: &str) -> Option<(T, bool)> {
        let text = fs::read(self.remembered_file(key)).ok()?;
        let Remembered { at, answer } = serde_json::from_slice(&text).ok()?;
        let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + Duration::from_secs(at));
        Some((answer, age.is_ok_and(|age| age < FRESH)))
    }

    /// Remembers an answer. That it cannot be written costs a question the next time, and nothing else.
    pub fn remember<T: Serialize>(&self, key: &str, answer: &T) {
        self.remember_as(key, answer, Duration::ZERO);
    }

    /// Goes on with an older answer for a few minutes, because nobody could be asked.
    pub fn remember_once_more<T: Serialize>(&self, key: &str, answer: &T) {
        self.remember_as(key, answer, FRESH.saturating_sub(ONCE_MORE));
    }

    /// Remembers an answer as one of this age.
    fn remember_as<T: Serialize>(&self, key: &str, answer: &T, age: Duration) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let at = now.map_or(0, |now| now.saturating_sub(age).as_secs());
        let path = self.remembered_file(key);
        let _ = (|| -> io::Result<()> {
            let dir = path.parent().unwrap_or(&self.root);
            tree::private(dir)?;
            let mut file = tempfile::NamedTempFile::new_in(dir)?;
            serde_json::to_writer(&mut file, &Remembered { at, answer })?;
            file.persist(&path)?;
            Ok(())
        })();
    }

    fn remembered_file(&self, key: &str) -> PathBuf {
        self.root.join("remembered").join(format!("{key}.json"))
    }

    fn wheel_dir(&self, sha256: &str) -> PathBuf {
        self.root.join("wheels").join(sha256)
    }

    /// Where a wheel's modules are, once it was brought.
    #[must_use]
    pub fn modules_of(&self, wheel: &Wheel) -> PathBuf {
        self.wheel_dir(&wheel.sha256).join(MODULES)
    }

    /// The wheels among these that are not here yet.
    #[must_use]
    pub fn missing<'w>(&self, wheels: &'w [Wheel]) -> Vec<&'w Wheel> {
        wheels.iter().filter(|wheel| !self.modules_of(wheel).is_dir()).collect()
    }

    /// Brings wheels here and unpacks them, those that are not here yet.
    ///
    /// # Errors
    /// The first that cannot be had or is refused; the others stay.
    pub async fn bring(&self, wheels: &[Wheel], index: &Index<'_>, progress: &dyn Progress) -> Result<(), HouseError> {
        if self.missing(wheels).is_empty() {
            return Ok(());
        }
        let _turn = self.beside_others()?;
        let missing = self.missing(wheels);
        let staging = self.root.join("wheels");
        tree::private(&staging).map_err(HouseError::io("make", &staging))?;
        let fetched = stream::iter(missing).map(|wheel| async move {
            let made = Builder::new().prefix(".wheel-").tempdir_in(self.root.join("wheels"));
            let made = made.map_err(HouseError::io("make a directory in", &self.root))?;
            let file = made.path().join("wheel.whl");
            index.bring(wheel, &file, progress).await?;
            self.unpack(wheel, &file, made.path())
        });
        fetched.buffer_unordered(AT_ONCE).try_collect::<()>().await
    }

    /// Unpacks a wheel whose content was checked to its place.
    fn unpack(&self, wheel: &Wheel, file: &Path, made: &Path) -> Result<(), HouseError> {
        let whole = made.join("whole");
        let unpacked = unpack_wheel_within(&LIMITS, file, &[""], &whole, &crate::progress::Silent);
        unpacked.map_err(|source| HouseError::Unpack { wheel: wheel.file.clone(), source })?;
        let ready = made.join("ready");
        let modules = ready.join(MODULES);
        arrange::arrange(wheel, &whole, &modules)?;
        let place = self.wheel_dir(&wheel.sha256);
        tree::into_place(&ready, &place).map_err(HouseError::io("write", &place))
    }

    /// Which of these wheels have no bytecode for a runtime yet.
    #[must_use]
    pub fn uncompiled<'w>(&self, wheels: &'w [Wheel], runtime: &str) -> Vec<&'w Wheel> {
        wheels.iter().filter(|wheel| !self.compiled_dir(wheel, runtime).is_dir()).collect()
    }

    fn compiled_dir(&self, wheel: &Wheel, runtime: &str) -> PathBuf {
        self.root.join("compiled").join(runtime).join(&wheel.sha256)
    }

    /// A directory to compile or build into; it is gone with the value.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn workbench(&self) -> Result<Workbench, HouseError> {
        let above = self.root.join("compiled");
        tree::private(&above).map_err(HouseError::io("make", &above))?;
        let made = || {
            let dir = Builder::new().prefix(BENCH).tempdir_in(&above)?;
            let held = File::create(dir.path().join(HELD))?;
            held.lock()?;
            Ok(Workbench { held, dir })
        };
        made().map_err(HouseError::io("make a directory in", &above))
    }

    /// Takes a wheel's bytecode, a tree of files beside its modules, over from a workbench. Anything but plain files of
    /// bytecode is left there.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub fn keep_compiled(&self, wheel: &Wheel, runtime: &str, from: &Path) -> Result<(), HouseError> {
        let place = self.compiled_dir(wheel, runtime);
        let parent = place.parent().unwrap_or(&self.root);
        tree::private(parent).map_err(HouseError::io("make", parent))?;
        let staged = Builder::new().prefix(BENCH).tempdir_in(parent).map_err(HouseError::io("write", parent))?;
        let ready = staged.path().join("ready");
        tree::bytecode(from, &ready).map_err(HouseError::io("copy", from))?;
        tree::into_place(&ready, &place).map_err(HouseError::io("write", &place))
    }

    /// The environment of these wheels, all of them here, for a target; made if it is not there.
    ///
    /// `compiled` names the runtime whose bytecode is put in. `library` are names in whose place nothing of a package is
    /// found: where packages come before the interpreter's own modules they are left out, as a plain interpreter passes
    /// over them.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn environment(
        &self,
        wheels: &[Wheel],
        target: &str,
        compiled: Option<&str>,
        library: &[String],
    ) -> Result<Environment, HouseError> {
        let named: Vec<_> = wheels.iter().map(|wheel| (&wheel.name, &wheel.version, &wheel.sha256)).collect();
        let key = Self::key(&(&named, target, compiled, library));
        let place = self.root.join("environments").join(key);
        if let Some(environment) = self.held(&place)? {
            return Ok(environment);
        }
        let _turn = self.beside_others()?;
        let above = self.root.join("environments");
        tree::private(&above).map_err(HouseError::io("make", &above))?;
        let staged = Builder::new().prefix(".environment-").tempdir_in(&above);
        let staged = staged.map_err(HouseError::io("make a directory in", &above))?;
        let ready = staged.path().join("ready");
        let modules = ready.join(MODULES);
        fs::create_dir_all(&modules).map_err(HouseError::io("make", &modules))?;
        for wheel in wheels {
            let from = self.modules_of(wheel);
            // It may have been brought under another name.
            arrange::is_what_it_is_called(wheel, &from)?;
            tree::link(&from, &modules, library).map_err(HouseError::io("link", &from))?;
            let programs = from.with_file_name(PROGRAMS);
            if programs.is_dir() {
                tree::link(&programs, &ready.join(PROGRAMS), &[]).map_err(HouseError::io("link", &programs))?;
            }
            if let Some(runtime) = compiled {
                let from = self.compiled_dir(wheel, runtime);
                if from.is_dir() {
                    tree::link(&from, &modules, library).map_err(HouseError::io("link", &from))?;
                }
            }
        }
        let wheels = wheels.iter().map(|wheel| (wheel.file.clone(), wheel.sha256.clone())).collect();
        let described = Described { target: target.to_owned(), wheels };
        let text = serde_json::to_vec_pretty(&described).unwrap_or_default();
        fs::write(ready.join(keep::DESCRIBED), text).map_err(HouseError::io("write", &ready))?;
        tree::into_place(&ready, &place).map_err(HouseError::io("write", &place))?;
        let gone = || HouseError::io("open", &place)(io::ErrorKind::NotFound.into());
        self.held(&place)?.ok_or_else(gone)
    }

    /// The environment at a place, if it is there, held.
    fn held(&self, place: &Path) -> Result<Option<Environment>, HouseError> {
        let (modules, programs) = (place.join(MODULES), place.join(PROGRAMS));
        let programs = programs.is_dir().then_some(programs);
        let held = held_file(place, keep::DESCRIBED)?;
        Ok(held.map(|held| Environment { modules, programs, held }).filter(|environment| environment.modules.is_dir()))
    }

    /// Keeps everything that is here, and that comes, from being removed while the answer lives: for whoever chooses wheels,
    /// brings them and then makes an environment of them.
    ///
    /// # Errors
    /// When the file that is locked for it cannot be had.
    pub fn beside_others(&self) -> Result<File, HouseError> {
        tree::private(&self.root).map_err(HouseError::io("make", &self.root))?;
        turns::beside_others(&self.root).map_err(HouseError::io("lock", &self.root))
    }
}

/// The file that describes a place, if that is there, held so that nobody prunes it.
fn held_file(place: &Path, name: &str) -> Result<Option<File>, HouseError> {
    match File::open(place.join(name)) {
        Ok(file) => {
            file.lock_shared().map_err(HouseError::io("lock", place))?;
            Ok(Some(file))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(HouseError::io("open", place)(error)),
    }
}
