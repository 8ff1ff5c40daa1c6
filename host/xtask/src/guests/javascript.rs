//! JavaScript: QuickJS-NG with our shim and the embedded prelude.

use std::fs;

use anyhow::{Context, Result};
use codebox_testkit::sources_of;

use super::artifact::Artifact;
use super::build_env::BuildEnv;
use super::{description, prelude};

const NAME: &str = "javascript";
const MODULE: &str = "javascript.wasm";
const DESCRIPTION: &str = "runtime.toml";

/// Builds the prelude's bundle, the module that embeds it, and the description that pins the module.
///
/// # Errors
/// Fails if any of them cannot be built.
pub fn make(build_env: &BuildEnv) -> Result<Vec<Artifact>> {
    let (root, folder, build_dir) = (&build_env.project.root, BuildEnv::folder_of(NAME), build_env.build_dir(NAME)?);
    let mut files = prelude::bundle(root, &folder, &build_dir)?;
    let engine = sources_of("rquickjs-sys")?;
    build_env.build(NAME, |build| {
        build.arg(engine).arg(build_dir.join(MODULE)).env("PRELUDE", build_dir.join("prelude.js"));
    })?;
    let module = fs::read(build_dir.join(MODULE)).with_context(|| format!("read {MODULE}"))?;
    let path = folder.join(DESCRIPTION);
    let described = fs::read_to_string(root.join(&path)).with_context(|| format!("read {}", path.display()))?;
    let described = description::pin_digest(&described, &module)?;
    files.push(Artifact { path: folder.join(MODULE), bytes: Some(module) });
    files.push(Artifact { path, bytes: Some(described.into_bytes()) });
    Ok(files)
}
