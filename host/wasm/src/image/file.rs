//! A memory image on disk: the raw bytes of the memory, and a small JSON file with its other properties.

use std::fs::File;
use std::path::Path;

#[cfg(not(miri))]
use memmap2::Mmap;
use serde::{Deserialize, Serialize};

use crate::error::WasmError;

/// Bytes of a wasm page. The length of an image is a multiple of it.
const WASM_PAGE_SIZE: usize = 65_536;

/// The values of a module's mutable globals, in the module's order.
pub(crate) type Globals = Vec<GlobalValue>;

/// The value of a mutable global.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GlobalValue {
    I32(i32),
    I64(i64),
}

/// The properties of an image in addition to its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImageFacts {
    /// The values of the mutable globals.
    pub globals: Globals,
    /// Address and length in memory of the code that starts a job. `None` in a first image, whose guest has not started
    /// yet.
    pub entry: Option<(u32, u32)>,
    /// Addresses and lengths in memory of the states of random number generators.
    pub seeds: Vec<(u32, u32)>,
    /// The modules that were imported into the image.
    pub imports: Vec<String>,
    /// The names of the modules that the imports of programs added, without those inside packages. Empty in other images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<String>,
    /// Paths at which these imports found no file, and where a job may have one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lookups: Vec<String>,
    /// The last part of the code with which guests of the image start. `None` if the code has no parts.
    pub code: Option<String>,
    /// The number of parts of the code that the image needs.
    pub parts: usize,
    /// Addresses and lengths in memory of the pages that every job writes. Empty if they are unknown.
    #[serde(default)]
    pub hot: Vec<(u32, u32)>,
}

impl ImageFacts {
    /// Returns true if the globals of two images have the same types, in the same order.
    pub(crate) fn have_same_types(one: &Self, other: &Self) -> bool {
        let types = |facts: &Self| -> Vec<bool> {
            facts.globals.iter().map(|global| matches!(global, GlobalValue::I32(_))).collect()
        };
        types(one) == types(other)
    }
}

/// An open memory image.
pub(crate) struct MemoryImage {
    file: File,
    #[cfg(not(miri))]
    bytes: Mmap,
    /// Miri maps no files.
    #[cfg(miri)]
    bytes: Vec<u8>,
    facts: ImageFacts,
}

impl MemoryImage {
    /// Maps an image's bytes from an open file.
    ///
    /// # Errors
    /// [`WasmError::Damaged`] if the length is not a multiple of the wasm page size, [`WasmError::Io`] if the file
    /// cannot be mapped.
    #[tracing::instrument(level = "debug", name = "map_image", skip_all)]
    pub(crate) fn open(path: &Path, file: File, facts: ImageFacts) -> Result<Self, WasmError> {
        #[cfg(miri)]
        let bytes = read(&file).map_err(WasmError::io("read", path))?;
        // SAFETY: the file belongs to the artefact store, which only this user can write to and which replaces files as
        // a whole, by rename, and never in place. The mapped bytes therefore do not change.
        #[cfg(not(miri))]
        let bytes = unsafe { Mmap::map(&file) }.map_err(WasmError::io("map", path))?;
        if bytes.is_empty() || bytes.len() % WASM_PAGE_SIZE != 0 {
            return Err(WasmError::damaged(path, format!("{} bytes are not a multiple of the page size", bytes.len())));
        }
        Ok(Self { file, bytes, facts })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn facts(&self) -> &ImageFacts {
        &self.facts
    }
}

#[cfg(miri)]
fn read(mut file: &File) -> std::io::Result<Vec<u8>> {
    use std::io::{Read as _, Seek as _};
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
