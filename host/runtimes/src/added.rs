//! All runtimes of a machine: the built-in ones and those that its user added.

use codebox_core::{Language, NamedLanguage, RuntimeName};
use codebox_wasm::{Engine, Registry, RuntimeParts, RuntimeSpec, Store, StoreDirs, WasmError};

use crate::built_in::RUNTIMES;

/// The engine, the directories and the registry from which stores are made.
pub(crate) struct Added {
    engine: Engine,
    dirs: StoreDirs,
    pub registry: Registry,
}

impl Added {
    pub(crate) fn below(dirs: StoreDirs, engine: Engine) -> Self {
        Self { engine, registry: Registry::new(&dirs), dirs }
    }

    /// Returns the store of an added runtime.
    pub(crate) fn store(&self, spec: RuntimeSpec) -> Store {
        Store::new(self.engine.clone(), self.dirs.clone(), spec, RuntimeParts::default())
    }

    /// Returns the stores of all runtimes, the built-in ones first, and the reasons why other added runtimes cannot be
    /// used.
    pub(crate) fn stores(&self) -> Result<(Stores, Vec<(RuntimeName, WasmError)>), WasmError> {
        let built_in = RUNTIMES.iter().map(|(language, described, parts)| {
            let spec = RuntimeSpec::parse(described)?;
            Ok((language.clone(), Store::new(self.engine.clone(), self.dirs.clone(), spec, *parts)))
        });
        let mut stores: Stores = built_in.collect::<Result<_, WasmError>>()?;
        let mut damaged = Vec::new();
        for (name, spec) in self.registry.entries()? {
            // An entry whose name is not a runtime name was not put there by codebox.
            let Ok(name) = RuntimeName::new(name) else { continue };
            match spec {
                Ok(spec) => {
                    let described = spec.languages.first().and_then(|own| NamedLanguage::new(own.clone()).ok());
                    let language = Language::Named(described.unwrap_or_else(|| name.into()));
                    stores.push((language, self.store(spec)));
                }
                Err(why) => damaged.push((name, why)),
            }
        }
        Ok((stores, damaged))
    }
}

/// Runtimes, each with the language that it runs.
pub(crate) type Stores = Vec<(Language, Store)>;
