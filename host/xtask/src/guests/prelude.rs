//! Prelude of the JavaScript guest: our sources and pinned packages, bundled into one script.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::artifact::Artifact;
use crate::project::output_of;

/// Inputs of the bundler in addition to the sources.
const INPUTS: [&str; 4] = [".npmrc", "build.mjs", "package.json", "package-lock.json"];

/// Builds the bundle below `build_dir`, to be checked in below `folder`, with the licences of its packages.
///
/// # Errors
/// Fails if npm is missing, the packages cannot be installed, or the bundler fails.
pub fn bundle(root: &Path, folder: &Path, build_dir: &Path) -> Result<Vec<Artifact>> {
    let prelude = build_dir.join("prelude");
    // The build uses a copy, so that the packages of a checkout are neither used nor changed.
    copy(&root.join(folder).join("prelude/src"), &prelude.join("src"))?;
    for name in INPUTS {
        let from = root.join(folder).join("prelude").join(name);
        fs::copy(&from, prelude.join(name)).with_context(|| format!("copy {}", from.display()))?;
    }
    for program in ["node", "npm"] {
        require(program)?;
    }
    // The bundler is a development dependency and its binary an optional one. Install scripts of packages do not run.
    let mut install = Command::new("npm");
    install.args(["ci", "--ignore-scripts", "--include=dev", "--include=optional"]);
    output_of(install.current_dir(&prelude))?;
    output_of(Command::new("node").arg("build.mjs").current_dir(&prelude))?;

    let mut files = vec![Artifact::of("prelude.js", build_dir, folder)?];
    let names = |root: &Path| names_in(&root.join("prelude/LICENSES"));
    let licences: BTreeSet<String> = names(build_dir)?.into_iter().chain(names(&root.join(folder))?).collect();
    for name in licences {
        files.push(Artifact::of(&format!("prelude/LICENSES/{name}"), build_dir, folder)?);
    }
    Ok(files)
}

/// Checks that a program can be started.
fn require(program: &str) -> Result<()> {
    let mut version = Command::new(program);
    version.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match version.status() {
        Ok(status) => ensure!(status.success(), "{program} --version failed: {status}"),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("{program} is missing: bundling the prelude requires Node 18 or newer and its npm; install them")
        }
        Err(error) => return Err(error).with_context(|| format!("start {program}")),
    }
    Ok(())
}

/// Copies a folder recursively.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("list {}", from.display()))? {
        let entry = entry?;
        let (path, copied) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&path, &copied)?;
        } else {
            fs::copy(&path, &copied).with_context(|| format!("copy {}", path.display()))?;
        }
    }
    Ok(())
}

/// Lists the names in a folder; empty if the folder is missing.
fn names_in(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("list {}", folder.display()))?,
    };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_missing_program() {
        let error = require("no-such-program-7f3a").err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.starts_with("no-such-program-7f3a is missing: "), "{error}");
    }
}
