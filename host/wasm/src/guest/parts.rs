//! Loads later parts of a guest's code while the guest runs.

use std::sync::Arc;

use wasmtime::{AsContextMut, Caller, Extern, Instance, Linker, Module, Ref, StoreContextMut};

use crate::code::{FUNCTION_MODULE, LOAD_PARTS, LaterParts, PART_MODULE, PRIMARY_MODULE, TABLE};
use crate::guest::Guest;

/// The parts of a guest's code.
pub(crate) struct Parts {
    later: Arc<LaterParts>,
    /// The instance of the primary module, once it exists.
    primary: Option<Instance>,
    /// The number of loaded parts.
    loaded: usize,
}

impl Parts {
    /// Returns the parts of a guest that has those of its primary module.
    pub(crate) fn new(later: Arc<LaterParts>) -> Self {
        let loaded = later.first();
        Self { later, primary: None, loaded }
    }

    /// Sets the instance whose state the later parts share.
    pub(crate) fn set_primary(&mut self, primary: Instance) {
        self.primary = Some(primary);
    }

    /// Returns the number of loaded parts.
    pub(crate) fn loaded(&self) -> usize {
        self.loaded
    }

    /// Returns true if the guest has all parts.
    pub(crate) fn is_complete(&self) -> bool {
        self.loaded == self.later.count()
    }
}

pub(crate) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap_async(PART_MODULE, LOAD_PARTS, |mut caller: Caller<'_, Guest>, (part,): (i32,)| {
        Box::new(async move {
            let count = usize::try_from(part)?.saturating_add(1);
            load_parts(&mut caller, count).await
        })
    })?;
    Ok(())
}

/// Loads the parts that the guest does not have yet, up to `count` parts.
///
/// The secondary modules have no start function, so no code of the guest runs.
pub(crate) async fn load_parts(mut store: impl AsContextMut<Data = Guest>, count: usize) -> wasmtime::Result<()> {
    let mut store = store.as_context_mut();
    while let Some(parts) = store.data().parts.as_ref().filter(|parts| parts.loaded < count) {
        let part = parts.loaded;
        tracing::debug!(part, "load a part of the code");
        let primary = parts.primary.ok_or_else(|| wasmtime::Error::msg("the guest has no primary module"))?;
        let module = parts.later.module(part)?;
        let imports = imports(&mut store, primary, &module)?;
        Instance::new_async(&mut store, &module, &imports).await?;
        if let Some(parts) = &mut store.data_mut().parts {
            parts.loaded = part + 1;
        }
    }
    Ok(())
}

/// Returns the imports of a secondary module: the state of the primary module, and functions in its table.
fn imports(
    store: &mut StoreContextMut<'_, Guest>,
    primary: Instance,
    module: &Module,
) -> wasmtime::Result<Vec<Extern>> {
    let missing = |name: &str| wasmtime::Error::msg(format!("the primary module has no {name}"));
    let table = primary.get_table(&mut *store, TABLE).ok_or_else(|| missing("table"))?;
    let import = |import: wasmtime::ImportType<'_>| match import.module() {
        PRIMARY_MODULE => primary.get_export(&mut *store, import.name()).ok_or_else(|| missing(import.name())),
        FUNCTION_MODULE => match table.get(&mut *store, import.name().parse()?) {
            Some(Ref::Func(Some(function))) => Ok(Extern::Func(function)),
            _ => Err(missing(&format!("function in slot {}", import.name()))),
        },
        other => Err(missing(&format!("import module {other}"))),
    };
    module.imports().map(import).collect()
}
