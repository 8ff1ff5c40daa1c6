//! A compiled component, linked to the host.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use wasmtime::component::{Component, Linker};

use crate::code::load_component;
use crate::component::bind::RuntimePre;
use crate::component::contract;
use crate::component::state::{self, State};
use crate::engine::Engine;
use crate::error::WasmError;

/// A component that is ready to be instantiated any number of times.
#[derive(Clone)]
pub(crate) struct ComponentCode {
    pub engine: Engine,
    pub pre: RuntimePre<State>,
}

impl ComponentCode {
    /// Compiles a component for this engine; the result is what [`ComponentCode::load`] takes.
    ///
    /// # Errors
    /// [`WasmError::Module`] when it is no component, or one that does not keep to the contract; `path` is its name.
    pub(crate) fn compile(engine: &Engine, path: &Path, wasm: &[u8]) -> Result<Vec<u8>, WasmError> {
        contract::check_kind(path, wasm)?;
        let refused = |e: wasmtime::Error| WasmError::Module { path: path.to_owned(), reason: format!("{e:#}") };
        let compiled = engine.inner().precompile_component(wasm).map_err(refused)?;
        contract::check(engine, path, &load_component(engine, path, &compiled)?)?;
        Ok(compiled)
    }

    /// Reads a compiled component from an open file, for which the caller vouches as for
    /// [`CodeImage::load`](crate::code::CodeImage::load).
    pub(crate) fn load(engine: &Engine, path: &Path, mut file: File) -> Result<Self, WasmError> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(WasmError::io("read", path))?;
        let component = load_component(engine, path, &bytes)?;
        let pre = Self::link(engine, &component).map_err(WasmError::engine("link the runtime"))?;
        Ok(Self { engine: engine.clone(), pre })
    }

    /// Links a component to what the contract offers; fails where a type is not what the contract says.
    pub(crate) fn link(engine: &Engine, component: &Component) -> wasmtime::Result<RuntimePre<State>> {
        let mut linker = Linker::new(engine.inner());
        state::link(&mut linker)?;
        RuntimePre::new(linker.instantiate_pre(component)?)
    }
}
