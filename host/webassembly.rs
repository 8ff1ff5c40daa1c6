//! The WebAssembly tier of this machine: its catalog of runtimes, and its backend.

use std::sync::Arc;

use codebox_core::{ResultKind, RunnerError};
use codebox_runner::get_or_create;
use codebox_runtimes::RuntimeCatalog;
use codebox_wasm::{Engine, Installation, StoreDirs, WasmBackend};

use crate::machine::{Machine, Use, env_lookup};
use crate::network;

/// Number of idle memory regions of each image that a process keeps between jobs.
const IDLE_REGIONS: usize = 16;

impl Machine {
    pub(crate) fn catalog(&self) -> Result<&Arc<RuntimeCatalog>, RunnerError> {
        get_or_create(&self.catalog, || self.open_catalog())
    }

    pub(crate) fn wasm(&self) -> Result<&Arc<WasmBackend>, RunnerError> {
        get_or_create(&self.wasm, || self.create_wasm())
    }

    fn open_catalog(&self) -> Result<Arc<RuntimeCatalog>, RunnerError> {
        let places = self.places()?;
        let dirs =
            StoreDirs { data: places.data.clone(), cache: places.cache.clone(), installation: self.installation() };
        let engine = self.engine.get().map_or_else(Engine::new, |engine| Ok(engine.clone()));
        let catalog = engine.and_then(|engine| RuntimeCatalog::open(dirs, env_lookup(), engine));
        Ok(Arc::new(catalog.map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?))
    }

    /// Returns the runtimes that were installed with this program. A library is part of another program.
    pub(crate) fn installation(&self) -> Option<Installation> {
        match self.usage {
            Use::Library => None,
            #[cfg(feature = "cli")]
            Use::CommandLine => Installation::of_program(&std::env::current_exe().ok()?),
        }
    }

    fn create_wasm(&self) -> Result<Arc<WasmBackend>, RunnerError> {
        let stores = self.catalog()?.stores().iter().cloned();
        let scratch = Arc::clone(self.scratch()?);
        let wasm = match self.usage {
            Use::Library => WasmBackend::new(stores, scratch, IDLE_REGIONS).with_connectors(network::direct()),
            // A process of the command line runs one job.
            #[cfg(feature = "cli")]
            Use::CommandLine => WasmBackend::new(stores, scratch, 0)
                .with_connectors(network::of_command_line(&self.line))
                .with_dedicated_process(),
        };
        Ok(Arc::new(wasm.with_analyzer(self.analyzer()?.clone())))
    }
}
