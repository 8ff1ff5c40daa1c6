//! Loads compiled code and links it to the host.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use codebox_core::CodeScope;
use memmap2::{Mmap, MmapOptions};
use wasmtime::component::Component;
use wasmtime::{ExternType, InstancePre, Module};

use crate::code::split::GLOBAL_PREFIX;
use crate::code::{FunctionTable, RuntimeFunctions, on_own_threads, precompile_module, publish, with_trap};
use crate::engine::Engine;
use crate::error::WasmError;
use crate::guest::{self, Guest};
use crate::sys::{DIVERTS, DivertibleCode};

/// A compiled module, linked to its imports and ready to be instantiated any number of times.
#[derive(Clone)]
pub(crate) struct CodeImage {
    pub engine: Engine,
    pub pre: InstancePre<Guest>,
    /// Size in bytes of the module's initial memory.
    pub minimum: usize,
    /// Names of the exports that carry the module's mutable globals, in the module's order.
    pub globals: Vec<String>,
    /// The parts of the code that guests load when they need them. `None` if the module has no parts.
    pub later: Option<Arc<LaterParts>>,
    /// The code from which guests can be diverted. `None` if the code checks for interruption itself.
    pub divertible: Option<Arc<dyn DivertibleCode>>,
}

/// An open file of compiled code.
///
/// The creator guarantees that it holds the unchanged output of [`CodeImage::compile`]: the store checks the file's
/// digest and that no other user can write to it.
pub(crate) struct CodeFile {
    pub path: PathBuf,
    pub file: File,
}

impl CodeFile {
    fn module(self, engine: &Engine) -> Result<Module, WasmError> {
        // SAFETY: compiled code is trusted input. The only creator of these files is the artefact store, which returns
        // a file only after it has checked the file's digest, owner and mode, from a directory that is never granted to
        // a guest. The engine refuses a file that another version made or that was made for other settings.
        unsafe { Module::deserialize_open_file(engine.inner(), self.file) }
            .map_err(|e| WasmError::damaged(&self.path, e.to_string()))
    }
}

/// The parts of a runtime's code that follow those of a primary module.
///
/// The files are mapped executable from the start, because a process that has confined itself can make no memory
/// executable. A part that no guest needs costs only its range of addresses. A part that is not compiled yet has no file.
/// Stores that use a part must be dropped before these parts.
pub(crate) struct LaterParts {
    engine: wasmtime::Engine,
    /// The number of parts of the primary module.
    first: usize,
    parts: Vec<Option<LaterPart>>,
}

/// A guest needs a part of the code that is not compiled.
#[derive(Debug, thiserror::Error)]
#[error("part {0} of the code is not compiled")]
pub(crate) struct NotCompiled(usize);

struct LaterPart {
    path: PathBuf,
    /// The secondary module, once a guest has needed it. The module refers to the mapping and is dropped before it. The
    /// lock is held while it is decoded, because the engine accepts a mapping only once.
    module: Mutex<Option<Module>>,
    mapping: Mmap,
    /// The places of the module's functions, once a guest that may have the module was to be stopped.
    functions: OnceLock<FunctionTable>,
}

impl LaterParts {
    pub(crate) fn map(engine: &Engine, first: usize, files: Vec<Option<CodeFile>>) -> Result<Self, WasmError> {
        let map = |CodeFile { path, file }: CodeFile| {
            // SAFETY: the file belongs to the artefact store, which only this user can write to and which replaces
            // files as a whole, by rename, and never in place. The mapped bytes therefore do not change.
            let mapping = unsafe { MmapOptions::new().map_exec(&file) }.map_err(WasmError::io("map", &path))?;
            Ok(LaterPart { path, module: Mutex::default(), mapping, functions: OnceLock::new() })
        };
        let parts = files.into_iter().map(|file| file.map(map).transpose()).collect::<Result<_, WasmError>>()?;
        Ok(Self { engine: engine.inner().clone(), first, parts })
    }

    /// Returns the number of parts that a guest has from its start.
    pub(crate) fn first(&self) -> usize {
        self.first
    }

    /// Returns the number of all parts.
    pub(crate) fn count(&self) -> usize {
        self.first + self.parts.len()
    }

    /// Returns true if all parts are compiled.
    pub(crate) fn is_complete(&self) -> bool {
        self.parts.iter().all(Option::is_some)
    }

    /// Returns the secondary module of a part.
    ///
    /// # Errors
    /// [`NotCompiled`] if the part has no file, [`WasmError::Damaged`] if the file is not usable.
    pub(crate) fn module(&self, part: usize) -> wasmtime::Result<Module> {
        let found = part.checked_sub(self.first).and_then(|index| self.parts.get(index));
        let found = found.ok_or_else(|| WasmError::Prelude(format!("the code has no part {part}")))?;
        let part = found.as_ref().ok_or(NotCompiled(part))?;
        let mut module = part.module.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = &*module {
            return Ok(module.clone());
        }
        let bytes = NonNull::from(&part.mapping[..]);
        // SAFETY: compiled code is trusted input, as for `CodeFile::module`. The mapping is readable and executable, and
        // it outlives the module: `part.module` is dropped before it, and every other clone belongs to a store that is
        // dropped before these parts.
        let mapped = publish::already_executable(|| unsafe { Module::deserialize_raw(&self.engine, bytes) })
            .map_err(|e| WasmError::damaged(&part.path, e.to_string()))?;
        Ok(module.insert(mapped).clone())
    }

    /// Prepares [`has_function_at`](Self::has_function_at) for the modules that exist.
    pub(crate) fn prepare_tables(&self) {
        for part in self.parts.iter().flatten().filter(|part| part.functions.get().is_none()) {
            // A module that is being decoded is not waited for, because no guest runs it yet.
            let module = part.module.try_lock().ok().and_then(|module| module.clone());
            if let Some(module) = module {
                part.functions.get_or_init(|| FunctionTable::new(&module));
            }
        }
    }

    /// Returns true if an address is in a function of a module that existed when the tables were prepared. Takes no lock
    /// and allocates nothing.
    pub(crate) fn has_function_at(&self, address: usize) -> bool {
        let mut tables = self.parts.iter().flatten().filter_map(|part| part.functions.get());
        tables.any(|table| table.contains(address))
    }
}

impl CodeImage {
    /// Compiles a module's code for this engine, in the form that [`CodeImage::load`] reads.
    #[tracing::instrument(level = "debug", name = "compile_code", skip_all)]
    pub(crate) fn compile(engine: &Engine, code: &[u8]) -> Result<Vec<u8>, WasmError> {
        let failed = WasmError::engine("compile the runtime");
        let extended;
        let code = if DIVERTS {
            match with_trap(code) {
                Ok(code) => extended = code,
                Err(reason) => return Err(failed(wasmtime::Error::msg(reason))),
            }
            &extended
        } else {
            code
        };
        on_own_threads(|| precompile_module(engine.inner(), code))?.map_err(failed)
    }

    /// Maps a compiled module. `later` has the number of its parts, and the files of the parts that follow, as far as they
    /// are compiled.
    #[tracing::instrument(level = "debug", name = "load_code", skip_all)]
    pub(crate) fn load(
        engine: &Engine,
        code: CodeFile,
        later: Option<(usize, Vec<Option<CodeFile>>)>,
    ) -> Result<Self, WasmError> {
        let path = code.path.clone();
        let module = code.module(engine)?;
        let globals =
            module.exports().filter(|e| e.name().starts_with(GLOBAL_PREFIX)).map(|e| e.name().to_owned()).collect();
        let minimum = match module.get_export("memory").as_ref().and_then(ExternType::memory) {
            Some(ty) => usize::try_from(ty.minimum() * ty.page_size()).unwrap_or(usize::MAX),
            None => return Err(WasmError::damaged(&path, "it exports no memory")),
        };
        let pre = guest::linker(engine)?.instantiate_pre(&module).map_err(WasmError::engine("link the runtime"))?;
        let map = |(first, files)| LaterParts::map(engine, first, files).map(Arc::new);
        let later = later.map(map).transpose()?;
        let functions = || Arc::new(RuntimeFunctions::new(&module, later.clone())) as Arc<dyn DivertibleCode>;
        let divertible = DIVERTS.then(functions);
        Ok(Self { engine: engine.clone(), pre, minimum, globals, later, divertible })
    }

    /// Returns true if guests can use this code: all of it, or only that of their image.
    pub(crate) fn has(&self, scope: CodeScope) -> bool {
        scope == CodeScope::Image || self.later.as_ref().is_none_or(|later| later.is_complete())
    }
}

/// Loads a compiled component.
///
/// The caller guarantees that the bytes are the unchanged output of the engine's compiler: they come from a file of the
/// store, as for [`CodeImage::load`].
pub(crate) fn load_component(engine: &wasmtime::Engine, path: &Path, bytes: &[u8]) -> Result<Component, WasmError> {
    // SAFETY: as for modules above. The only caller has the bytes from the artefact store, which has checked the file's
    // digest, owner and mode. The engine refuses a component that another version made or that was made for other
    // settings.
    unsafe { Component::deserialize(engine, bytes) }.map_err(|e| WasmError::damaged(path, e.to_string()))
}
