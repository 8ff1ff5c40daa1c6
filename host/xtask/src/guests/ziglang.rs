//! The C compiler of the guests: a Python package, pinned by digest, in an environment of its own.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::made::sha256;
use crate::project::{Project, output_of};
use crate::venv::{bare, python_in};

/// The requirements file, from the workspace's root.
const PINNED: &str = "guest-runtimes/ziglang.txt";

/// A Python that has the compiler, installed in `shelf` where it is not there yet.
///
/// # Errors
/// When there is no Python with pip, or the package cannot be had.
pub fn python(project: &Project, shelf: &Path) -> Result<PathBuf> {
    let pinned = project.root.join(PINNED);
    let text = fs::read(&pinned).with_context(|| format!("read {PINNED}"))?;
    // Its name says what is in it, so that another pin gets another environment.
    let place = shelf.join(format!("ziglang-{:.12}", sha256(&text)));
    let python = python_in(&place);
    if place.is_dir() && output_of(bare(&python).args(["-m", "ziglang", "version"])).is_ok() {
        return Ok(python);
    }
    let folder = tempfile::tempdir_in(shelf).context("make a folder for the compiler")?;
    output_of(bare(Path::new("python3")).args(["-m", "venv"]).arg(folder.path())).context(
        "make a virtual environment, which takes python3 with its modules venv and ensurepip (Debian's python3-venv)",
    )?;
    let mut pip = bare(&python_in(folder.path()));
    pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--only-binary=:all:"]);
    output_of(pip.args(["--require-hashes", "-r"]).arg(&pinned)).context("install the compiler")?;
    // One whose Python is gone may be in the way.
    if place.exists() {
        fs::remove_dir_all(&place).with_context(|| format!("remove {}", place.display()))?;
    }
    // Renamed only now, so that an interrupted run leaves nothing half-done.
    fs::rename(folder.keep(), &place).with_context(|| format!("put the compiler in {}", place.display()))?;
    Ok(python)
}
