//! The WebAssembly tier of this machine: its catalog of runtimes, and its backend.

use std::sync::Arc;

use codebox_core::{Backend, ResultKind, RunnerError};
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

    /// Returns the runtimes that were installed with this program, or with the program of a library's workers.
    pub(crate) fn installation(&self) -> Option<Installation> {
        Installation::of_program(&self.program()?)
    }

    /// Returns the backend of this tier: with guests in this process, or in workers.
    pub(crate) fn first_tier(self: &Arc<Self>) -> Result<Arc<dyn Backend>, RunnerError> {
        let backend = get_or_create(&self.first_tier, || {
            #[cfg(all(feature = "workers", target_os = "linux"))]
            if let Some(command) = self.workers.get() {
                return crate::workers::backend(self, command);
            }
            Ok(Arc::clone(self.wasm()?) as _)
        });
        backend.cloned()
    }

    fn create_wasm(&self) -> Result<Arc<WasmBackend>, RunnerError> {
        let stores = self.catalog()?.stores().iter().cloned();
        let scratch = Arc::clone(self.scratch()?);
        let wasm = match self.usage {
            // It describes the backend of the workers, and opens no guest.
            Use::Library if self.workers.get().is_some() => {
                WasmBackend::new(stores, scratch, 0).with_dedicated_process()
            }
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
