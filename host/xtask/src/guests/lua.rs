//! Lua: its original sources with our shim, as a component that exports the world of `wit/`.

use std::fs;

use anyhow::{Context, Result};
use codebox_testkit::sources_of;

use super::artifact::Artifact;
use super::build_env::BuildEnv;
use super::component;

const NAME: &str = "lua";

/// Builds the component.
///
/// # Errors
/// Fails if it cannot be built.
pub fn make(build_env: &BuildEnv) -> Result<Vec<Artifact>> {
    let build_dir = build_env.build_dir(NAME)?;
    let (bindings, core) = (build_dir.join("bindings"), build_dir.join("core.wasm"));
    component::bindings(&build_env.project.root.join("wit"), &bindings)?;
    let lua = sources_of("lua-src")?;
    build_env.build(NAME, |build| {
        build.args([&lua, &bindings, &core]);
    })?;
    let core = fs::read(&core).with_context(|| format!("read {}", core.display()))?;
    let bytes = component::component(&core)?;
    Ok(vec![Artifact { path: BuildEnv::folder_of(NAME).join("lua.wasm"), bytes: Some(bytes) }])
}
