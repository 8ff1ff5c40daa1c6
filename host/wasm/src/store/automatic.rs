//! Memory images that are made for programs that run repeatedly.
//!
//! An image is made by a process that confines itself, because it runs the code of packages. Another process checks the result
//! and adds it to the store. The least recently used images are removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use codebox_core::{AutomaticImage, ByteSize, ImageUse, Preparation};
use codebox_files::private_dir;
use rand::Rng as _;
use serde::{Deserialize, Serialize};

use crate::error::WasmError;
use crate::guest::{MAX_PATH_LEN, MAX_PATHS, MAX_SEEDS};
use crate::image::{ImageBuilder, ImageFacts, MemoryImage, ProgramImports};
use crate::store::Store;
use crate::store::install::{self, remove_dir};
use crate::store::lock::StoreLock;
use crate::store::manifest::{INITIAL_IMAGE_FILE, Manifest, code_file, image_file};
use crate::store::prepare::Preparer;
use crate::store::seal::{Durability, sha256_of, write_atomic};

/// Start of the names of these images. The names of the user's own images have no dots.
const PREFIX: &str = "auto.";

/// Directory with a file for each image that is made or may be made. Its length is the number of runs, and its time that of
/// the last run.
const USES: &str = "uses";

/// Content of the file of an image that is not worth making, or cannot be made.
const REFUSED: &[u8] = b"-";

/// Number of runs that are counted. An image whose making failed is tried again after twice as many runs.
const MAX_COUNTED: u64 = 4096;

/// Maximum number of files with counts after the oldest are removed.
const MAX_COUNTS: usize = 512;

/// Start of the names of the directories in which images are made.
const DRAFT_PREFIX: &str = ".draft-";

/// Maximum number of processes that wait until they can make an image.
const MAX_WAITING: usize = 16;

/// Maximum number of bytes that imports may add to an image.
const MAX_GROWTH: ByteSize = ByteSize::mib(128);

/// Maximum number of images.
const MAX_IMAGES: usize = 16;

/// Maximum size of all images together.
const MAX_TOTAL: ByteSize = ByteSize::mib(1024);

/// The least processor time of imports that an image is made for.
const MIN_SAVED: Duration = Duration::from_millis(50);

/// Maximum length of a generator's state.
const MAX_SEED_LEN: u32 = 1 << 16;

/// Maximum number and length of the names of modules in an image.
const MAX_MODULES: usize = 4096;
const MAX_MODULE_LEN: usize = 128;

/// The state of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AutomaticState {
    /// Made, with this name.
    Ready(String),
    /// Not made, and it is time to make it.
    Due,
    /// Not made, and not to be made now.
    NotDue,
}

/// A directory for the file of an image, which is removed when it is dropped. One process at a time has one.
pub struct DraftDir {
    dir: tempfile::TempDir,
    _only: StoreLock,
}

impl DraftDir {
    /// Returns the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// The result of the first step of making an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drafted {
    /// The image's description.
    Made(String),
    /// The imports cannot be in an image, for this reason.
    Refused(String),
}

/// A finished image that is not in the store yet.
#[derive(Serialize, Deserialize)]
struct Draft {
    facts: ImageFacts,
    /// Processor time that the image saves, in microseconds.
    saved: u64,
}

/// Returns true for the name of an image that was made for programs.
pub(super) fn is_automatic(image: &str) -> bool {
    image.starts_with(PREFIX)
}

fn name_of(wanted: &AutomaticImage) -> String {
    let layers: Vec<_> = wanted.layers.iter().map(|layer| (&layer.host, format!("{}", layer.guest))).collect();
    let key = (&wanted.base, &wanted.imports, layers, &wanted.program_dir, wanted.network);
    let mut digest = sha256_of(&serde_json::to_vec(&key).unwrap_or_default());
    digest.truncate(20);
    format!("{PREFIX}{digest}")
}

impl Store {
    /// Returns the state of an image after one more run of its program. An image that contradicts the job is not used.
    pub fn count_use(&self, wanted: &AutomaticImage, job: ImageUse<'_>) -> AutomaticState {
        let name = name_of(wanted);
        let path = self.prepared_dir().join(USES).join(&name);
        if let Some(fits) = self.fits_if_prepared(&name, job) {
            if !fits {
                return AutomaticState::NotDue;
            }
            // The time decides only which image is removed first.
            let _ = OpenOptions::new()
                .append(true)
                .create(true)
                .open(&path)
                .and_then(|file| file.set_modified(SystemTime::now()));
            return AutomaticState::Ready(name);
        }
        // The images of the user contain what their user has chosen.
        let is_built_in = self.spec.image.iter().any(|recipe| recipe.name == wanted.base);
        if !is_built_in || self.has_imports(wanted) {
            return AutomaticState::NotDue;
        }
        match count_run(&path) {
            Ok(count) if count >= 2 && count.is_power_of_two() => AutomaticState::Due,
            // Without a count no image is made.
            Ok(_) | Err(_) => AutomaticState::NotDue,
        }
    }

    /// Returns true if the image from which the program would start otherwise has all of its imports.
    fn has_imports(&self, wanted: &AutomaticImage) -> bool {
        let has = |manifest: &Manifest| {
            let base = manifest.images.get(&wanted.base);
            base.is_some_and(|base| wanted.imports.iter().all(|(module, _)| base.imports.contains(module)))
        };
        self.of_known(has) == Some(true)
    }

    /// Returns true if an image does not contradict a job; `None` unless this process knows that it is prepared.
    fn fits_if_prepared(&self, image: &str, job: ImageUse<'_>) -> Option<bool> {
        self.of_known(|manifest| {
            let is_prepared = self.is_prepared(manifest, Preparation::Image(image));
            let ImageFacts { modules, lookups, .. } = manifest.images.get(image).filter(|_| is_prepared)?;
            let contradicts =
                modules.iter().any(|name| (job.has_module)(name)) || lookups.iter().any(|path| (job.has_path)(path));
            let size = fs::metadata(self.prepared_dir().join(image_file(image))).map_or(0, |meta| meta.len());
            Some(!contradicts && size <= job.max_size)
        })?
    }

    /// Makes an image as a file for [`add_automatic_image`](Self::add_automatic_image). Uses only code that is compiled.
    /// `confine` confines the process before any code of a package runs.
    ///
    /// # Errors
    /// Fails if an artefact of the runtime is damaged, or a file cannot be written.
    pub fn draft_automatic_image<E: From<WasmError>>(
        &self,
        wanted: &AutomaticImage,
        path: &Path,
        confine: impl FnOnce() -> Result<(), E>,
    ) -> Result<Drafted, E> {
        let dir = self.prepared_dir();
        let manifest = self.prepared()?.ok_or_else(|| WasmError::damaged(&dir, "not prepared"))?;
        let is_compiled = |last: Option<&str>| manifest.seals.contains_key(&code_file(last));
        let load = |last| Ok((last, self.load_code_from(&dir, &manifest, last)?));
        let codes = self
            .spec
            .codes()
            .into_iter()
            .filter(|last| is_compiled(*last))
            .map(load)
            .collect::<Result<Vec<_>, WasmError>>()?;
        drop(manifest.open(&dir, INITIAL_IMAGE_FILE)?);
        let initial = manifest.path(&dir, INITIAL_IMAGE_FILE);
        // The memory of the image is copied, because a confined process may not open it.
        let copy = path.with_extension("initial");
        fs::copy(&initial, &copy).map_err(WasmError::io("copy", &initial))?;
        // The generator of random numbers opens a file on some systems.
        let _ = rand::rng().next_u32();
        confine()?;
        let builder = ImageBuilder { store: self, initial: &copy };
        let program = ProgramImports::new(wanted);
        let imports = self.spec.imports_of(&wanted.base);
        let made = builder.build_with_least_code(&codes, &imports, Some(&program), path);
        let _ = fs::remove_file(&copy);
        match made {
            Ok(made) => {
                let saved = u64::try_from(made.saved.as_micros()).unwrap_or(u64::MAX);
                Ok(Drafted::Made(serde_json::to_string(&Draft { facts: made.facts, saved }).unwrap_or_default()))
            }
            Err(WasmError::Prelude(reason)) => Ok(Drafted::Refused(reason)),
            Err(error) => Err(error.into()),
        }
    }

    /// Adds an image that [`draft_automatic_image`](Self::draft_automatic_image) has made, unless it saves too little time. Removes
    /// the least recently used images beyond the limits.
    ///
    /// The description comes from a process that has run untrusted code, and is checked.
    ///
    /// # Errors
    /// [`WasmError::Damaged`] if the description does not fit the image.
    pub fn add_automatic_image(&self, wanted: &AutomaticImage, file: &Path, draft: &str) -> Result<(), WasmError> {
        let draft: Draft = serde_json::from_str(draft).map_err(|e| WasmError::damaged(file, e.to_string()))?;
        if Duration::from_micros(draft.saved) < MIN_SAVED {
            return self.refuse_automatic_image(wanted);
        }
        let opened = open_draft(file)?;
        let _lock = StoreLock::acquire(&self.dirs.data, || ())?;
        let dir = self.prepared_dir();
        let manifest = Manifest::read(&dir)?.ok_or_else(|| WasmError::damaged(&dir, "not prepared"))?;
        let name = name_of(wanted);
        let len = MemoryImage::open(file, opened, ImageFacts::default())?.len() as u64;
        let base_len = fs::metadata(manifest.path(&dir, &image_file(&wanted.base))).map_or(0, |meta| meta.len());
        if len > base_len + MAX_GROWTH.get() {
            return self.refuse_automatic_image(wanted);
        }
        let facts = self.checked(draft.facts, &manifest, wanted, file, len)?;
        let mut preparer = Preparer::new(self, &codebox_core::Silent, dir.clone(), manifest);
        install::rename(file, &dir.join(image_file(&name)))?;
        preparer.add_image(&name, facts)?;
        let mut manifest = preparer.into_manifest();
        if self.remove_oldest(&mut manifest, &name) {
            manifest.write(&dir)?;
        }
        self.cache_manifest(Some(manifest));
        Ok(())
    }

    /// Records that an image is not to be made.
    ///
    /// # Errors
    /// [`WasmError::Io`] if that cannot be recorded.
    pub fn refuse_automatic_image(&self, wanted: &AutomaticImage) -> Result<(), WasmError> {
        write_atomic(&self.prepared_dir().join(USES).join(name_of(wanted)), REFUSED, Durability::Reproducible)
    }

    /// Creates a directory for the file of an image, on the disk of the store, and removes those that processes have left which were
    /// killed. Waits while another process makes an image. `None` if many processes wait already, or if the image was made or
    /// refused meanwhile.
    ///
    /// # Errors
    /// [`WasmError::Io`] if it cannot be created.
    pub fn draft_dir(&self, wanted: &AutomaticImage) -> Result<Option<DraftDir>, WasmError> {
        let dir = self.prepared_dir();
        let uses = dir.join(USES);
        private_dir(&uses).map_err(WasmError::io("create", &uses))?;
        let places = (0..MAX_WAITING).map(|number| uses.join(format!("place-{number}")));
        let place = places.into_iter().find_map(|place| {
            private_dir(&place).ok()?;
            StoreLock::try_acquire(&place)
        });
        let Some(_place) = place else { return Ok(None) };
        let only = StoreLock::acquire(&uses, || ())?;
        let name = name_of(wanted);
        let is_refused = fs::read(uses.join(&name)).is_ok_and(|content| content.starts_with(REFUSED));
        if is_refused || Manifest::read(&dir)?.is_some_and(|manifest| manifest.images.contains_key(&name)) {
            return Ok(None);
        }
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(DRAFT_PREFIX) {
                remove_dir(&entry.path())?;
            }
        }
        let made = tempfile::Builder::new().prefix(DRAFT_PREFIX).tempdir_in(&dir);
        let dir = made.map_err(WasmError::io("create a directory in", &dir))?;
        Ok(Some(DraftDir { dir, _only: only }))
    }

    /// Returns the facts of an image if they fit its memory and the runtime's code.
    fn checked(
        &self,
        facts: ImageFacts,
        manifest: &Manifest,
        wanted: &AutomaticImage,
        file: &Path,
        len: u64,
    ) -> Result<ImageFacts, WasmError> {
        let refused = |what: &str| WasmError::damaged(file, format!("the description of the image has invalid {what}"));
        let base = manifest.images.get(&wanted.base).ok_or_else(|| refused("base"))?;
        let fits = |&(at, size): &(u32, u32)| u64::from(at) + u64::from(size) <= len;
        let parts = self.spec.split.as_ref().map_or(0, |split| split.parts.len());
        let has_code = self.spec.codes().contains(&facts.code.as_deref());
        match () {
            () if !has_code || facts.parts > parts => Err(refused("code")),
            () if !ImageFacts::have_same_types(&facts, base) => Err(refused("globals")),
            () if !facts.entry.as_ref().is_some_and(fits) => Err(refused("entry")),
            () if facts.seeds.len() > MAX_SEEDS
                || !facts.seeds.iter().all(|seed| fits(seed) && seed.1 <= MAX_SEED_LEN)
                || facts.seeds.len() < base.seeds.len() =>
            {
                Err(refused("generators"))
            }
            () if facts.modules.len() > MAX_MODULES || facts.modules.iter().any(|name| name.len() > MAX_MODULE_LEN) => {
                Err(refused("modules"))
            }
            () if facts.lookups.len() > MAX_PATHS || facts.lookups.iter().any(|path| path.len() > MAX_PATH_LEN) => {
                Err(refused("paths"))
            }
            () => {
                let imports = wanted.imports.iter().map(|(module, _)| module.clone()).collect();
                // The pages that every program writes are those of the other image.
                Ok(ImageFacts { imports, hot: base.hot.clone(), ..facts })
            }
        }
    }

    /// Removes the least recently used images beyond the limits from a manifest, and all files of images that it lacks. Returns true
    /// if the manifest has changed.
    fn remove_oldest(&self, manifest: &mut Manifest, newest: &str) -> bool {
        let dir = self.prepared_dir();
        let images = manifest.images.keys().filter(|name| is_automatic(name)).map(|name| {
            let used = fs::metadata(dir.join(USES).join(name)).and_then(|meta| meta.modified());
            let size = fs::metadata(dir.join(image_file(name))).map_or(0, |meta| meta.len());
            let used = if name == newest { SystemTime::now() } else { used.unwrap_or(SystemTime::UNIX_EPOCH) };
            (used, name.clone(), size)
        });
        let surplus = beyond_limits(images.collect());
        for name in &surplus {
            manifest.images.remove(name);
            manifest.seals.remove(&image_file(name));
        }
        // A damaged image has no entry. A guest that still runs from a file keeps it open.
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let is_unlisted = |file: &str| is_automatic(file) && !manifest.seals.contains_key(file);
            if entry.file_name().to_str().is_some_and(is_unlisted) {
                let _ = fs::remove_file(entry.path());
            }
        }
        !surplus.is_empty()
    }

    /// Forgets the runs that were counted for an image that is removed.
    pub(super) fn forget_uses(&self, image: &str) {
        if is_automatic(image) {
            let _ = fs::remove_file(self.prepared_dir().join(USES).join(image));
        }
    }
}

/// Returns the names of the images that were used least recently and exceed a limit. The image that was used last is not among
/// them. `images` contains the time of the last use, the name and the size of each.
fn beyond_limits(mut images: Vec<(SystemTime, String, u64)>) -> Vec<String> {
    images.sort();
    images.reverse();
    let mut total = 0_u64;
    let mut surplus = Vec::new();
    for (index, (_, name, size)) in images.into_iter().enumerate() {
        total = total.saturating_add(size);
        if index > 0 && (index >= MAX_IMAGES || total > MAX_TOTAL.get()) {
            surplus.push(name);
        }
    }
    surplus
}

/// Opens the file of an image, which a process that has run untrusted code may have replaced.
fn open_draft(path: &Path) -> Result<File, WasmError> {
    // The process could change only what is in this directory.
    let parent = path.parent().unwrap_or(path);
    let parent = &parent.canonicalize().map_err(WasmError::io("resolve", parent))?;
    let dir = codebox_files::open_dir_without_symlinks(parent).map_err(WasmError::io("open", parent))?;
    let name = path.file_name().unwrap_or_default();
    codebox_files::open_for_appending(&dir, name).map_err(WasmError::io("open", path))
}

/// Counts a run in a file, and returns the number of runs so far; zero if the image is refused.
fn count_run(path: &PathBuf) -> io::Result<u64> {
    match fs::read(path) {
        Ok(content) if content.starts_with(REFUSED) => Ok(0),
        Ok(content) if content.len() as u64 >= MAX_COUNTED => Ok(0),
        Ok(_) => {
            let mut file = OpenOptions::new().append(true).open(path)?;
            file.write_all(b"1")?;
            Ok(file.metadata()?.len())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(dir) = path.parent() {
                private_dir(dir)?;
            }
            let mut file = OpenOptions::new().append(true).create(true).open(path)?;
            file.write_all(b"1")?;
            // One of sixteen, by a digit of the digest: the directory is not listed for every new program.
            if path.as_os_str().as_encoded_bytes().last() == Some(&b'0') {
                remove_oldest_counts(path.parent().unwrap_or(path));
            }
            Ok(file.metadata()?.len())
        }
        Err(error) => Err(error),
    }
}

/// Removes the oldest counts beyond the maximum. A program whose count is removed is counted from the start.
fn remove_oldest_counts(dir: &Path) {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_automatic));
    let aged = |entry: fs::DirEntry| Some((entry.metadata().and_then(|meta| meta.modified()).ok()?, entry.path()));
    let mut counts: Vec<_> = entries.filter_map(aged).collect();
    counts.sort();
    for (_, path) in counts.iter().take(counts.len().saturating_sub(MAX_COUNTS)) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_runs_until_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("uses/auto.a");
        let counts: Vec<_> = (0..5).map(|_| count_run(&path).expect("it is writable")).collect();
        assert_eq!(counts, [1, 2, 3, 4, 5]);
        fs::write(&path, REFUSED).expect("it is writable");
        assert_eq!(count_run(&path).expect("it is readable"), 0);
    }

    #[test]
    fn least_recently_used_images_exceed_limits() {
        let image = |number: usize, size: u64| {
            (SystemTime::UNIX_EPOCH + Duration::from_secs(number as u64), format!("auto.{number}"), size)
        };
        let of = |count: usize, size: u64| beyond_limits((0..count).map(|number| image(number, size)).collect());
        assert!(of(MAX_IMAGES, 1).is_empty() && of(1, u64::MAX).is_empty() && of(0, 0).is_empty());
        assert_eq!(of(MAX_IMAGES + 2, 1), ["auto.1", "auto.0"]);
        assert_eq!(of(4, MAX_TOTAL.get() / 2), ["auto.1", "auto.0"]);
    }

    #[test]
    fn counts_are_bounded() {
        let dir = tempfile::tempdir().expect("a directory");
        let uses = dir.path().join("uses");
        for number in 0..MAX_COUNTS + 200 {
            count_run(&uses.join(format!("auto.{number:05x}"))).expect("it is writable");
        }
        let left = fs::read_dir(&uses).expect("it is readable").count();
        assert!((MAX_COUNTS..MAX_COUNTS + 16).contains(&left), "{left} files");
        let newest = format!("auto.{:05x}", MAX_COUNTS + 199);
        assert!(uses.join(newest).exists() && !uses.join("auto.00000").exists());
    }

    #[test]
    fn names_differ_by_every_part_of_the_key() {
        let layer = |host: &str| codebox_core::Layer {
            host: host.into(),
            guest: codebox_core::GuestPath::new("/packages").expect("a path"),
        };
        let image = AutomaticImage {
            base: "python".to_owned(),
            imports: vec![("a".to_owned(), vec!["b".to_owned()])],
            layers: vec![layer("/x")],
            program_dir: String::new(),
            network: false,
        };
        let others = [
            AutomaticImage { program_dir: "/run/codebox".to_owned(), ..image.clone() },
            AutomaticImage { base: "python-data".to_owned(), ..image.clone() },
            AutomaticImage { imports: vec![("a".to_owned(), vec![])], ..image.clone() },
            AutomaticImage { layers: vec![layer("/y")], ..image.clone() },
            AutomaticImage { network: true, ..image.clone() },
        ];
        let mut names: Vec<_> = others.iter().chain([&image]).map(name_of).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 6);
        assert!(names.iter().all(|name| is_automatic(name) && !is_automatic("own")));
    }
}
