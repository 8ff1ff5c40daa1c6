//! Loads a compiled code image and links it to the host.

use std::fs::File;
use std::path::Path;

use wasmtime::component::Component;
use wasmtime::{ExternType, InstancePre, Module};

use crate::code::split::GLOBAL_PREFIX;
use crate::engine::Engine;
use crate::error::WasmError;
use crate::guest::{self, Guest};

/// A compiled module, linked to its imports and ready to be instantiated any number of times.
#[derive(Clone)]
pub(crate) struct CodeImage {
    pub engine: Engine,
    pub pre: InstancePre<Guest>,
    /// Bytes of memory that the module declares to start with.
    pub minimum: usize,
    /// Names of the exports that carry the module's mutable globals, in the module's order.
    pub globals: Vec<String>,
}

impl CodeImage {
    /// Compiles a module's code for this engine; the result is what [`CodeImage::load`] takes.
    pub(crate) fn compile(engine: &Engine, code: &[u8]) -> Result<Vec<u8>, WasmError> {
        engine.inner().precompile_module(code).map_err(WasmError::engine("compile the runtime"))
    }

    /// Maps a compiled module from an open file.
    ///
    /// The caller vouches that the file holds, unchanged, what [`CodeImage::compile`] returned: the store checks
    /// its digest and that nobody else can write to it.
    pub(crate) fn load(engine: &Engine, path: &Path, file: File) -> Result<Self, WasmError> {
        // SAFETY: compiled code is trusted input. The only caller is the artefact store, which hands out a file
        // only after its digest, owner and mode were checked, from a directory that no guest is ever granted; the
        // engine itself refuses a file made by another version or for other settings.
        let module = unsafe { Module::deserialize_open_file(engine.inner(), file) }
            .map_err(|e| WasmError::damaged(path, e.to_string()))?;
        let globals =
            module.exports().filter(|e| e.name().starts_with(GLOBAL_PREFIX)).map(|e| e.name().to_owned()).collect();
        let minimum = match module.get_export("memory").as_ref().and_then(ExternType::memory) {
            Some(ty) => usize::try_from(ty.minimum() * ty.page_size()).unwrap_or(usize::MAX),
            None => return Err(WasmError::damaged(path, "it exports no memory")),
        };
        let pre = guest::linker(engine)?.instantiate_pre(&module).map_err(WasmError::engine("link the runtime"))?;
        Ok(Self { engine: engine.clone(), pre, minimum, globals })
    }
}

/// Reads a compiled component.
///
/// The caller vouches that the bytes are, unchanged, what the engine compiled: they come from a file of the store's, as
/// for [`CodeImage::load`].
pub(crate) fn load_component(engine: &Engine, path: &Path, bytes: &[u8]) -> Result<Component, WasmError> {
    // SAFETY: as for modules above: the only caller has the bytes from the artefact store, which looked at the file's
    // digest, owner and mode; the engine refuses what another version made or other settings need.
    unsafe { Component::deserialize(engine.inner(), bytes) }.map_err(|e| WasmError::damaged(path, e.to_string()))
}
