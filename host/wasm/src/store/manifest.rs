//! The manifest of a directory of artefacts, and the names of their files.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use codebox_files::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::code::SplitSpec;
use crate::error::WasmError;
use crate::image::ImageFacts;
use crate::store::seal::{
    Durability, Seal, check_ancestor_dir, check_installed_dir, check_private_dir, read_installed_file, write_atomic,
};

/// File name of compiled code. Code that has parts has a file for each module instead.
pub(crate) const CODE_FILE: &str = "code.cwasm";
/// File name of an installed runtime's module.
pub(crate) const MODULE_FILE: &str = "module.wasm";
/// File of the [initial image](codebox_core::INITIAL_IMAGE), which is equal on all machines.
pub(crate) const INITIAL_IMAGE_FILE: &str = "initial.img";
pub(super) const MANIFEST_FILE: &str = "manifest.json";

/// Number of directories above a runtime's own that belong to codebox too: `data/runtimes`, `cache/prepared`.
const OWNED_ANCESTORS: usize = 2;

/// The seals of a directory's artefacts and the properties of its images.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub seals: BTreeMap<String, Seal>,
    pub images: BTreeMap<String, ImageFacts>,
    /// The facts that the interpreter reported about itself.
    pub facts: serde_json::Value,
    /// The directory of the runtime in the installation whose files are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed: Option<PathBuf>,
}

/// A manifest as stored, with a digest that detects changes: every entry of a manifest is trusted.
#[derive(Serialize, Deserialize)]
struct ManifestFile {
    /// The sha256 of the manifest's JSON without spaces.
    sha256: String,
    manifest: Manifest,
}

impl Manifest {
    fn digest(&self) -> serde_json::Result<String> {
        Ok(hex(&Sha256::digest(serde_json::to_vec(self)?)))
    }

    /// Reads the manifest of a directory that codebox has written. `None` if there is none.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>, WasmError> {
        let path = dir.join(MANIFEST_FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(WasmError::io("read", &path)(e)),
        };
        check_private_dir(dir)?;
        // A user who can write to a directory above this one can replace this one.
        dir.ancestors().skip(1).take(OWNED_ANCESTORS).try_for_each(check_ancestor_dir)?;
        Self::parse(&path, &bytes).map(Some)
    }

    /// Reads the manifest of a directory of an installation.
    pub(super) fn read_installed(dir: &Path) -> Result<Self, WasmError> {
        dir.ancestors().take(1 + OWNED_ANCESTORS).try_for_each(check_installed_dir)?;
        let path = dir.join(MANIFEST_FILE);
        let manifest = Self::parse(&path, &read_installed_file(&path)?)?;
        let is_plain = |name: &String| Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        match manifest.seals.keys().chain(manifest.images.keys()).all(is_plain) {
            true => Ok(manifest),
            false => Err(WasmError::damaged(&path, "it lists a file outside of its directory")),
        }
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, WasmError> {
        let damaged = |e: serde_json::Error| WasmError::damaged(path, e.to_string());
        let ManifestFile { sha256, manifest } = serde_json::from_slice(bytes).map_err(damaged)?;
        if manifest.digest().map_err(damaged)? != sha256 {
            return Err(WasmError::damaged(path, "content has changed since it was written"));
        }
        Ok(manifest)
    }

    pub(crate) fn write(&self, dir: &Path) -> Result<(), WasmError> {
        let path = dir.join(MANIFEST_FILE);
        let stored = || {
            let stored = ManifestFile { sha256: self.digest()?, manifest: self.clone() };
            serde_json::to_vec_pretty(&stored)
        };
        let bytes = stored().map_err(|e| WasmError::damaged(&path, e.to_string()))?;
        // A manifest of installed files alone is made again in a moment if the system fails before it is on the disk.
        let is_reproducible = self.seals.values().all(|seal| seal.installed_in().is_some());
        write_atomic(&path, &bytes, if is_reproducible { Durability::Reproducible } else { Durability::Durable })
    }

    /// Checks every artefact by its seal. A file that was copied or restored is read, and its seal is renewed. Returns true
    /// if a seal was.
    pub(crate) fn check(&mut self, dir: &Path) -> Result<bool, WasmError> {
        let mut is_renewed = false;
        for (name, seal) in &mut self.seals {
            if let Some(new) = seal.open(dir, name)?.renewed {
                *seal = new;
                is_renewed = true;
            }
        }
        Ok(is_renewed)
    }

    /// Returns the manifest without the artefacts that are missing or differ from their seals.
    pub(super) fn with_valid_entries(mut self, dir: &Path) -> Self {
        self.seals.retain(|name, seal| match seal.open(dir, name) {
            Ok(opened) => {
                if let Some(renewed) = opened.renewed {
                    *seal = renewed;
                }
                true
            }
            Err(_) => false,
        });
        let seals = &self.seals;
        self.images.retain(|image, _| seals.contains_key(&image_file(image)));
        self
    }

    /// Returns the path of an artefact. The files of an installation are in other directories than the manifest.
    pub(crate) fn path(&self, dir: &Path, name: &str) -> PathBuf {
        self.seals.get(name).map_or_else(|| dir.join(name), |seal| seal.path(dir, name))
    }

    /// Opens an artefact and checks its seal.
    pub(crate) fn open(&self, dir: &Path, name: &str) -> Result<fs::File, WasmError> {
        let seal = self.seals.get(name).ok_or_else(|| WasmError::damaged(&dir.join(name), "seal is missing"))?;
        Ok(seal.open(dir, name)?.file)
    }
}

/// Returns the file name of the code up to a part, or of all code that has no parts.
pub(crate) fn code_file(last: Option<&str>) -> String {
    last.map_or_else(|| CODE_FILE.to_owned(), |last| format!("code-{last}.cwasm"))
}

/// Returns the positions of the parts that follow a part; none if the part is not known.
pub(crate) fn later_parts(split: &SplitSpec, last: Option<&str>) -> Range<usize> {
    let count = split.parts.len();
    let last = last.and_then(|last| split.position(last));
    last.map_or(count, |last| last + 1)..count
}

/// Returns the file name of one part of the code.
pub(crate) fn part_file(part: &str) -> String {
    format!("part-{part}.cwasm")
}

/// Returns the file name of an image.
pub(crate) fn image_file(image: &str) -> String {
    format!("{image}.img")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_manifest_lists_only_its_own_directory() {
        let root = tempfile::tempdir().expect("a directory");
        let dir = root.path().join("lib/codebox/images");
        fs::create_dir_all(&dir).expect("it can be created");
        fs::write(dir.join("a"), "content").expect("it is writable");
        let seal = Seal::compute(&dir.join("a")).expect("the file is there").of_copy();
        for (name, is_accepted) in [("a", true), ("lib/a", true), ("../a", false), ("/a", false), ("b/../../a", false)]
        {
            let manifest = Manifest { seals: [(name.to_owned(), seal.clone())].into(), ..Manifest::default() };
            manifest.write(&dir).expect("it is writable");
            assert_eq!(Manifest::read_installed(&dir).is_ok(), is_accepted, "{name}");
        }
    }
}
