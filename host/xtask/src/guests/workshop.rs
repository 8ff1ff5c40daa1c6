//! What every guest is made with.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::ziglang;
use crate::project::{Project, output_of};

/// The compiler, a folder to work in, and where the guests are.
pub struct Workshop<'a> {
    pub project: &'a Project,
    /// Empty at first, and gone afterwards.
    scratch: TempDir,
    /// What is kept from run to run: the compiler and what it has compiled.
    shelf: PathBuf,
    python: PathBuf,
}

impl<'a> Workshop<'a> {
    /// Has everything ready.
    ///
    /// # Errors
    /// When the compiler cannot be had.
    pub fn open(project: &'a Project) -> Result<Self> {
        let shelf = project.target.join("guests");
        fs::create_dir_all(&shelf).with_context(|| format!("create {}", shelf.display()))?;
        let python = ziglang::python(project, &shelf)?;
        let scratch = tempfile::tempdir().context("make a folder to build in")?;
        Ok(Self { project, scratch, shelf, python })
    }

    /// The folder of a guest, from the workspace's root.
    pub fn folder_of(name: &str) -> PathBuf {
        Path::new("guest-runtimes").join(name)
    }

    /// A folder of a guest's own, to work in.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn bench(&self, name: &str) -> Result<PathBuf> {
        let bench = self.scratch.path().join(name);
        fs::create_dir_all(&bench).with_context(|| format!("create {}", bench.display()))?;
        Ok(bench)
    }

    /// Runs a guest's `build.sh`, after `prepare` gave it its arguments.
    ///
    /// Of this process's environment it sees where programs and temporary files are, and nothing that compilers or the
    /// script itself would heed.
    ///
    /// # Errors
    /// When it fails.
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
