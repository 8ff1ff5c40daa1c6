//! Runtimes that are installed together with the program: complete, and compiled for several processors.
//!
//! The files stay where they were installed. The manifest of prepared files, which is in the user's cache, refers to
//! them, and holds their identities since codebox first used them.

use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use codebox_files::check_resolved_path;

use crate::code::CodeLevel;
use crate::engine::FORMAT_VERSION;
use crate::error::WasmError;
use crate::store::Store;
use crate::store::manifest::{MANIFEST_FILE, Manifest, image_file};
use crate::store::seal::{Seal, check_installed_tree};

/// Directory of the runtimes and their prepared files that were installed together with the program.
///
/// It has `runtimes/RUNTIME`, with the files that guests read, and `prepared/KEY` with `images` and the code of each level.
/// Each of these directories has a manifest. `programs` has the programs that codebox starts.
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
    /// Returns the installation of the program at a path, if there is one.
    #[must_use]
    pub fn of_program(program: &Path) -> Option<Self> {
        Self::dir_of_program(program).filter(|dir| dir.is_dir()).map(|dir| Self { dir })
    }

    /// Returns the directory of the installation of the program at a path: `lib/codebox` beside the directory of the program.
    /// It may not exist.
    #[must_use]
    pub fn dir_of_program(program: &Path) -> Option<PathBuf> {
        Some(program.parent()?.parent()?.join("lib/codebox"))
    }

    /// Returns the installation in a directory, which may not exist yet.
    #[must_use]
    pub fn at(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Returns the directory of programs that codebox starts.
    #[must_use]
    pub fn programs_dir(&self) -> PathBuf {
        self.dir.join("programs")
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
    /// Adds the installed files to a manifest that lacks them, and removes those of other installations. `stored` is the manifest
    /// with the files that have changed.
    ///
    /// # Errors
    /// [`WasmError::Damaged`] if another user can change a file, or a file is not the installed one.
    pub(super) fn adopt(&self, mut manifest: Manifest, stored: &Manifest) -> Result<Manifest, WasmError> {
        let dirs = [&self.runtime, &self.images, &self.code];
        let is_current = |seal: &Seal| seal.installed_in().is_none_or(|dir| dirs.iter().any(|known| *known == dir));
        manifest.seals.retain(|_, seal| is_current(seal));
        manifest.images.retain(|image, _| manifest.seals.contains_key(&image_file(image)));
        for dir in dirs {
            let unsafe_path = |e: std::io::Error| WasmError::damaged(dir, e.to_string());
            check_resolved_path(dir).map_err(unsafe_path)?;
            check_installed_tree(dir)?;
            let installed = Manifest::read_installed(dir)?;
            for (name, seal) in installed.seals {
                let known = stored.seals.get(&name).and_then(Seal::installed_in);
                if let Entry::Vacant(entry) = manifest.seals.entry(name) {
                    let adopted = seal.adopt(dir, entry.key(), known == Some(dir))?;
                    entry.insert(adopted);
                }
            }
            for (name, facts) in installed.images {
                manifest.images.entry(name).or_insert(facts);
            }
            if manifest.facts.is_null() {
                manifest.facts = installed.facts;
            }
        }
        manifest.installed = Some(self.runtime.clone());
        Ok(manifest)
    }

    /// Returns the number of installed files after a check of their digests.
    pub(super) fn verify(&self) -> Result<usize, WasmError> {
        let mut checked = 0;
        for dir in [&self.runtime, &self.images, &self.code] {
            for (name, seal) in &Manifest::read_installed(dir)?.seals {
                seal.verify(dir, name)?;
                checked += 1;
            }
        }
        Ok(checked)
    }
}
