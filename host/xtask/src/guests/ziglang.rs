//! C compiler of the guests: a Python package, pinned by digest, in a separate virtual environment.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::artifact::sha256;
use crate::project::{Project, output_of};
use crate::venv::{clean_command, python_in};

/// Requirements file, relative to the workspace's root.
const PINNED: &str = "guest-runtimes/ziglang.txt";

/// Returns a Python that has the compiler, which is installed below `cache_dir` if it is missing.
///
/// # Errors
/// Fails if no Python with pip is found or the package cannot be installed.
pub fn python(project: &Project, cache_dir: &Path) -> Result<PathBuf> {
    let pinned = project.root.join(PINNED);
    let text = fs::read(&pinned).with_context(|| format!("read {PINNED}"))?;
    // The folder's name contains the digest of the requirements, so that another pin gets another environment.
    let place = cache_dir.join(format!("ziglang-{:.12}", sha256(&text)));
    let python = python_in(&place);
    if place.is_dir() && output_of(clean_command(&python).args(["-m", "ziglang", "version"])).is_ok() {
        return Ok(python);
    }
    let folder = tempfile::tempdir_in(cache_dir).context("make a folder for the compiler")?;
    output_of(clean_command(Path::new("python3")).args(["-m", "venv"]).arg(folder.path())).context(
        "create a virtual environment; python3 with the modules venv and ensurepip is required (Debian's python3-venv)",
    )?;
    let mut pip = clean_command(&python_in(folder.path()));
    pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--only-binary=:all:"]);
    output_of(pip.args(["--require-hashes", "-r"]).arg(&pinned)).context("install the compiler")?;
    // An environment whose Python no longer exists may occupy the path.
    if place.exists() {
        fs::remove_dir_all(&place).with_context(|| format!("remove {}", place.display()))?;
    }
    // The rename comes last, so that an interrupted run leaves no partial environment.
    fs::rename(folder.keep(), &place).with_context(|| format!("put the compiler in {}", place.display()))?;
    Ok(python)
}
