//! Runtimes that are installed together with the program: complete, and compiled for several processors.
//!
//! The files stay where they were installed. The manifest of prepared files, which is in the user's cache, refers to
//! them, and holds their identities since codebox first used them.

use std::path::{Path, PathBuf};

use crate::code::CodeLevel;
use crate::engine::FORMAT_VERSION;
use crate::error::WasmError;
use crate::store::Store;
use crate::store::manifest::{MANIFEST_FILE, Manifest};
use crate::store::seal::check_installed_dir;

/// Directory of the runtimes and their prepared files that were installed together with the program.
///
/// It has `runtimes/RUNTIME`, with the files that guests read, and `prepared/KEY` with `images` and the code of each level.
/// Each of these directories has a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    dir: PathBuf,
}

/// The directories of one runtime in an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InstalledDirs {
    /// The files that guests read.
    pub runtime: PathBuf,
    /// The memory images.
    pub images: PathBuf,
    /// The code for this machine's processor.
    pub code: PathBuf,
}

impl Installation {
    /// Returns the installation of the program at a path: the directory `lib/codebox` beside that of the program. `None` if it
    /// does not exist or other users can change it.
    #[must_use]
    pub fn of_program(program: &Path) -> Option<Self> {
        let dir = program.parent()?.parent()?.join("lib/codebox");
        match check_installed_dir(&dir) {
            Ok(()) => Some(Self { dir }),
            Err(WasmError::Io { .. }) => None,
            Err(reason) => {
                tracing::warn!(%reason, "the installed runtimes are not used");
                None
            }
        }
    }

    /// Returns the installation in a directory, which may not exist yet.
    #[must_use]
    pub fn at(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Returns the directories of a runtime. `None` if the installation has no such runtime for this version of codebox and
    /// this processor.
    pub(super) fn find(&self, store: &Store) -> Option<InstalledDirs> {
        let has_manifest = |dir: &PathBuf| dir.join(MANIFEST_FILE).exists();
        let runtime = Some(self.runtime_dir(store)).filter(has_manifest)?;
        let code = CodeLevel::usable().map(|level| self.code_dir(store, level)).find(has_manifest)?;
        Some(InstalledDirs { runtime, images: self.images_dir(store), code })
    }

    /// Returns the directory of the files of a runtime that guests read.
    pub(super) fn runtime_dir(&self, store: &Store) -> PathBuf {
        self.dir.join("runtimes").join(store.spec().folder())
    }

    /// Returns the directory of the memory images of a runtime.
    pub(super) fn images_dir(&self, store: &Store) -> PathBuf {
        self.prepared_dir(store).join("images")
    }

    /// Returns the directory of the code of a runtime for a level.
    pub(super) fn code_dir(&self, store: &Store, level: CodeLevel) -> PathBuf {
        let name = match level {
            CodeLevel::Native => store.engine.compatibility_key(),
            other => other.to_string(),
        };
        self.prepared_dir(store).join(name)
    }

    fn prepared_dir(&self, store: &Store) -> PathBuf {
        let (folder, inputs) = (store.spec().folder(), store.inputs_digest());
        self.dir.join("prepared").join(format!("{folder}-{}-{FORMAT_VERSION}-{inputs}", env!("CARGO_PKG_VERSION")))
    }
}

impl InstalledDirs {
    /// Adds the installed files to a manifest that lacks them. `stored` is the manifest with the files that have changed.
    pub(super) fn adopt(&self, mut manifest: Manifest, stored: &Manifest) -> Result<Manifest, WasmError> {
        for dir in [&self.runtime, &self.images, &self.code] {
            let installed = Manifest::read_installed(dir)?;
            let installed = installed.ok_or_else(|| WasmError::damaged(dir, "no manifest; install codebox again"))?;
            for (name, seal) in installed.seals {
                if !manifest.seals.contains_key(&name) {
                    let has_changed = stored.seals.get(&name).is_some_and(|known| known.is_installed_in(dir));
                    manifest.seals.insert(name.clone(), seal.adopt(dir, &name, has_changed)?);
                }
            }
            for (name, facts) in installed.images {
                manifest.images.entry(name).or_insert(facts);
            }
            if manifest.facts.is_null() {
                manifest.facts = installed.facts;
            }
        }
        Ok(manifest)
    }
}
