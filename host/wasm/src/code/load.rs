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
    /// Size in bytes of the module's initial memory.
    pub minimum: usize,
    /// Names of the exports that carry the module's mutable globals, in the module's order.
    pub globals: Vec<String>,
}

impl CodeImage {
    /// Compiles a module's code for this engine, in the form that [`CodeImage::load`] reads.
    #[tracing::instrument(level = "debug", name = "compile_code", skip_all)]
    pub(crate) fn compile(engine: &Engine, code: &[u8]) -> Result<Vec<u8>, WasmError> {
        engine.inner().precompile_module(code).map_err(WasmError::engine("compile the runtime"))
    }

    /// Maps a compiled module from an open file.
    ///
    /// The caller guarantees that the file holds the unchanged output of [`CodeImage::compile`]: the store checks the
    /// file's digest and that no other user can write to the file.
    #[tracing::instrument(level = "debug", name = "load_code", skip_all)]
    pub(crate) fn load(engine: &Engine, path: &Path, file: File) -> Result<Self, WasmError> {
        // SAFETY: compiled code is trusted input. The only caller is the artefact store, which returns a file only
        // after it has checked the file's digest, owner and mode, from a directory that is never granted to a guest.
        // The engine refuses a file that another version made or that was made for other settings.
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

/// Loads a compiled component.
///
/// The caller guarantees that the bytes are the unchanged output of the engine's compiler: they come from a file of the
/// store, as for [`CodeImage::load`].
pub(crate) fn load_component(engine: &Engine, path: &Path, bytes: &[u8]) -> Result<Component, WasmError> {
    // SAFETY: as for modules above. The only caller has the bytes from the artefact store, which has checked the file's
    // digest, owner and mode. The engine refuses a component that another version made or that was made for other
    // settings.
    unsafe { Component::deserialize(engine.inner(), bytes) }.map_err(|e| WasmError::damaged(path, e.to_string()))
}
