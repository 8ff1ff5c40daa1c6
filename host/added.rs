//! All runtimes of a machine: what is built in, and what its user added.

use codebox_core::Language;
use codebox_core::RuntimeName;
use codebox_wasm::{Engine, Registry, RuntimeParts, RuntimeSpec, Store, StoreDirs, WasmError};

use crate::places::Places;
use crate::prelude::RUNTIMES;

/// What stores are made with.
pub(crate) struct Added {
    engine: Engine,
    dirs: StoreDirs,
    pub registry: Registry,
}

impl Added {
    pub(crate) fn below(places: &Places) -> Result<Self, WasmError> {
        let dirs = StoreDirs { data: places.data.clone(), cache: places.cache.clone() };
        Ok(Self { engine: Engine::new()?, registry: Registry::new(&dirs), dirs })
    }

    /// A store of an added runtime.
    pub(crate) fn store(&self, spec: RuntimeSpec) -> Store {
        Store::new(self.engine.clone(), self.dirs.clone(), spec, RuntimeParts::default())
    }

    /// The stores of all runtimes, those of the build first.
    pub(crate) fn stores(&self) -> Result<Vec<(Language, Store)>, WasmError> {
        let built_in = RUNTIMES.iter().map(|(language, described, parts)| {
            let spec = RuntimeSpec::parse(described)?;
            Ok((language.clone(), Store::new(self.engine.clone(), self.dirs.clone(), spec, *parts)))
        });
        let added = self.registry.specs()?.into_iter().map(|spec| {
            let name = RuntimeName::new(spec.language.as_str());
            let name = name.map_err(|e| WasmError::Prelude(format!("the added runtime {}: {e}", spec.name)))?;
            Ok((Language::Named(name), self.store(spec)))
        });
        built_in.chain(added).collect()
    }
}
