//! Sources of locked crates.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

/// Returns the folder with the sources of a crate that `Cargo.lock` pins; cargo fetches them if they are missing.
///
/// The crate need not be compiled for any target. Cargo verifies its checksum.
///
/// # Errors
/// Fails if the workspace does not depend on the crate, depends on several versions of it, or cargo cannot fetch it.
pub fn sources_of(crate_name: &str) -> Result<PathBuf> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut metadata = Command::new(cargo);
    metadata.args(["metadata", "--format-version", "1", "--locked"]).stdin(Stdio::null());
    metadata.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    let output = metadata.output().context("start cargo")?;
    ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim_end());
    let metadata = serde_json::from_slice(&output.stdout).context("parse the output of cargo metadata")?;
    let manifest = manifest_of(crate_name, &metadata)?;
    manifest.parent().map(Path::to_owned).with_context(|| format!("{} has no folder", manifest.display()))
}

/// Finds the manifest of the only package of that name.
fn manifest_of(crate_name: &str, metadata: &Value) -> Result<PathBuf> {
    let packages = metadata["packages"].as_array().context("cargo lists no packages")?;
    let named: Vec<&Value> = packages.iter().filter(|package| package["name"] == crate_name).collect();
    match named.as_slice() {
        [package] => {
            let path = package["manifest_path"].as_str();
            path.map(PathBuf::from).with_context(|| format!("cargo reports no manifest path for {crate_name}"))
        }
        [] => bail!("the workspace depends on no crate {crate_name}"),
        several => bail!("the workspace depends on {} versions of {crate_name}", several.len()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_crate_by_full_name_with_a_single_version() {
        let package = |name: &str, path: &str| json!({"name": name, "manifest_path": path});
        let metadata = json!({"packages": [
            package("lua-src", "/crates/lua-src-1/Cargo.toml"),
            package("lua", "/crates/lua-1/Cargo.toml"),
            package("cc", "/crates/cc-1/Cargo.toml"),
            package("cc", "/crates/cc-2/Cargo.toml"),
        ]});
        assert_eq!(manifest_of("lua", &metadata).unwrap(), Path::new("/crates/lua-1/Cargo.toml"));
        let error = |name| manifest_of(name, &metadata).unwrap_err().to_string();
        assert_eq!(error("lua-sr"), "the workspace depends on no crate lua-sr");
        assert_eq!(error("cc"), "the workspace depends on 2 versions of cc");
    }

    #[test]
    fn finds_sources_of_uncompiled_crate() {
        let folder = sources_of("rquickjs-sys").unwrap();
        assert!(folder.join("quickjs/quickjs.c").is_file(), "{}", folder.display());
    }
}
