//! Build environment of the guests.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::ziglang;
use crate::project::{Project, output_of};

/// Compiler, temporary build folder and location of the guests.
pub struct Workshop<'a> {
    pub project: &'a Project,
    /// Temporary folder, empty at first and removed at the end.
    scratch: TempDir,
    /// Folder that is kept between runs: the compiler and its cache.
    shelf: PathBuf,
    python: PathBuf,
}

impl<'a> Workshop<'a> {
    /// Sets up the build environment.
    ///
    /// # Errors
    /// Fails if the compiler cannot be installed.
    pub fn open(project: &'a Project) -> Result<Self> {
        let shelf = project.target.join("guests");
        fs::create_dir_all(&shelf).with_context(|| format!("create {}", shelf.display()))?;
        let python = ziglang::python(project, &shelf)?;
        let scratch = tempfile::tempdir().context("make a folder to build in")?;
        Ok(Self { project, scratch, shelf, python })
    }

    /// Returns the folder of a guest, relative to the workspace's root.
    pub fn folder_of(name: &str) -> PathBuf {
        Path::new("guest-runtimes").join(name)
    }

    /// Creates a temporary build folder for one guest.
    ///
    /// # Errors
    /// Fails if the folder cannot be created.
    pub fn bench(&self, name: &str) -> Result<PathBuf> {
        let bench = self.scratch.path().join(name);
        fs::create_dir_all(&bench).with_context(|| format!("create {}", bench.display()))?;
        Ok(bench)
    }

    /// Runs a guest's `build.sh` after `prepare` has set its arguments.
    ///
    /// The script sees only `PATH` and `TMPDIR` of this process's environment, and no variable that affects compilers
    /// or the script itself.
    ///
    /// # Errors
    /// Fails if the script fails.
    pub fn build(&self, name: &str, prepare: impl FnOnce(&mut Command)) -> Result<()> {
        let cache = self.shelf.join("zig-cache");
        let mut build = Command::new("sh");
        build.arg(self.project.root.join(Self::folder_of(name)).join("build.sh"));
        build.env_clear().env("PYTHON", &self.python);
        build.env("ZIG_GLOBAL_CACHE_DIR", &cache).env("ZIG_LOCAL_CACHE_DIR", &cache);
        for kept in ["PATH", "TMPDIR"] {
            build.envs(env::var_os(kept).map(|value| (kept, value)));
        }
        prepare(&mut build);
        output_of(&mut build).map(drop)
    }
}
