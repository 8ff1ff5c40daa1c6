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
pub struct BuildEnv<'a> {
    pub project: &'a Project,
    /// Temporary folder, empty at first and removed at the end.
    scratch: TempDir,
    /// Folder that is kept between runs: the compiler and its cache.
    cache_dir: PathBuf,
    python: PathBuf,
}

impl<'a> BuildEnv<'a> {
    /// Sets up the build environment.
    ///
    /// # Errors
    /// Fails if the compiler cannot be installed.
    pub fn open(project: &'a Project) -> Result<Self> {
        let cache_dir = project.target.join("guests");
        fs::create_dir_all(&cache_dir).with_context(|| format!("create {}", cache_dir.display()))?;
        let python = ziglang::python(project, &cache_dir)?;
        let scratch = tempfile::tempdir().context("make a folder to build in")?;
        Ok(Self { project, scratch, cache_dir, python })
    }

    /// Returns the folder of a guest, relative to the workspace's root.
    pub fn folder_of(name: &str) -> PathBuf {
        Path::new("guest-runtimes").join(name)
    }

    /// Creates a temporary build folder for one guest.
    ///
    /// # Errors
    /// Fails if the folder cannot be created.
    pub fn build_dir(&self, name: &str) -> Result<PathBuf> {
        let build_dir = self.scratch.path().join(name);
        fs::create_dir_all(&build_dir).with_context(|| format!("create {}", build_dir.display()))?;
        Ok(build_dir)
    }

    /// Runs a guest's `build.sh` after `prepare` has set its arguments.
    ///
    /// The script sees only `PATH` and `TMPDIR` of this process's environment, and no variable that affects compilers
    /// or the script itself.
    ///
    /// # Errors
    /// Fails if the script fails.
    pub fn build(&self, name: &str, prepare: impl FnOnce(&mut Command)) -> Result<()> {
        let cache = self.cache_dir.join("zig-cache");
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
