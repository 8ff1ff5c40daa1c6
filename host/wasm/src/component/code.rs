//! A compiled component, linked to the host.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use wasmtime::component::{Component, Linker};

use crate::code::{load_component, on_own_threads, precompile_component};
use crate::component::bind::RuntimePre;
use crate::component::contract;
use crate::component::state::{self, State};
use crate::engine::Engine;
use crate::error::WasmError;
use crate::interrupt::Ticker;

/// A linked component that can be instantiated any number of times.
#[derive(Clone)]
pub(crate) struct ComponentCode {
    pub ticker: Arc<Ticker>,
    pub pre: RuntimePre<State>,
}

impl ComponentCode {
    /// Compiles a component for this engine, in the form that [`ComponentCode::load`] reads.
    ///
    /// # Errors
    /// [`WasmError::Module`] if the bytes are not a component, or if the component does not fulfil the contract. `path`
    /// is the component's name.
    pub(crate) fn compile(engine: &Engine, path: &Path, wasm: &[u8]) -> Result<Vec<u8>, WasmError> {
        contract::check_kind(path, wasm)?;
        let module_error = |e: wasmtime::Error| WasmError::Module { path: path.to_owned(), reason: format!("{e:#}") };
        let engine = engine.for_components()?;
        let compiled = on_own_threads(|| precompile_component(engine, wasm))?.map_err(module_error)?;
        contract::check(engine, path, &load_component(engine, path, &compiled)?)?;
        Ok(compiled)
    }

    /// Loads a compiled component from an open file. The caller gives the same guarantee as for
    /// [`CodeImage::load`](crate::code::CodeImage::load).
    pub(crate) fn load(engine: &Engine, path: &Path, mut file: File) -> Result<Self, WasmError> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(WasmError::io("read", path))?;
        let ticker = engine.ticker().clone();
        let engine = engine.for_components()?;
        let component = load_component(engine, path, &bytes)?;
        let pre = Self::link(engine, &component).map_err(WasmError::engine("link the runtime"))?;
        Ok(Self { ticker, pre })
    }

    /// Links a component to the interfaces of the contract. Fails if a type differs from the contract's.
    pub(crate) fn link(engine: &wasmtime::Engine, component: &Component) -> wasmtime::Result<RuntimePre<State>> {
        let mut linker = Linker::new(engine);
        state::link(&mut linker)?;
        RuntimePre::new(linker.instantiate_pre(component)?)
    }
}
