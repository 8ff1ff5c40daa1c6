//! JavaScript: QuickJS-NG with our shim and the embedded prelude.

use std::fs;

use anyhow::{Context, Result};
use codebox_testkit::sources_of;

use super::made::Made;
use super::workshop::Workshop;
use super::{description, prelude};

const NAME: &str = "javascript";
const MODULE: &str = "javascript.wasm";
const DESCRIPTION: &str = "runtime.toml";

/// Builds the prelude's bundle, the module that embeds it, and the description that pins the module.
///
/// # Errors
/// Fails if any of them cannot be built.
pub fn make(workshop: &Workshop) -> Result<Vec<Made>> {
    let (root, folder, bench) = (&workshop.project.root, Workshop::folder_of(NAME), workshop.bench(NAME)?);
    let mut files = prelude::bundle(root, &folder, &bench)?;
    let engine = sources_of("rquickjs-sys")?;
    workshop.build(NAME, |build| {
        build.arg(engine).arg(bench.join(MODULE)).env("PRELUDE", bench.join("prelude.js"));
    })?;
    let module = fs::read(bench.join(MODULE)).with_context(|| format!("read {MODULE}"))?;
    let path = folder.join(DESCRIPTION);
    let described = fs::read_to_string(root.join(&path)).with_context(|| format!("read {}", path.display()))?;
    let described = description::pinning(&described, &module)?;
    files.push(Made { path: folder.join(MODULE), bytes: Some(module) });
    files.push(Made { path, bytes: Some(described.into_bytes()) });
    Ok(files)
}
