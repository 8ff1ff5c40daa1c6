//! Lua: its original sources with our shim, as a component that exports the world of `wit/`.

use std::fs;

use anyhow::{Context, Result};
use codebox_testkit::sources_of;

use super::component;
use super::made::Made;
use super::workshop::Workshop;

const NAME: &str = "lua";

/// Builds the component.
///
/// # Errors
/// Fails if it cannot be built.
pub fn make(workshop: &Workshop) -> Result<Vec<Made>> {
    let bench = workshop.bench(NAME)?;
    let (bindings, core) = (bench.join("bindings"), bench.join("core.wasm"));
    component::bindings(&workshop.project.root.join("wit"), &bindings)?;
    let lua = sources_of("lua-src")?;
    workshop.build(NAME, |build| {
        build.args([&lua, &bindings, &core]);
    })?;
    let core = fs::read(&core).with_context(|| format!("read {}", core.display()))?;
    let bytes = component::component(&core)?;
    Ok(vec![Made { path: Workshop::folder_of(NAME).join("lua.wasm"), bytes: Some(bytes) }])
}
