//! Program under test and the home that tests share.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use crate::{Codebox, ProcessResult};

/// Variable that names a home with an installed runtime, which replaces the tests' own home.
const HOME_VAR: &str = "CODEBOX_TEST_HOME";

/// Maximum time for fetching and compiling a runtime.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(900);

/// Program under test and the home of its runtimes.
#[derive(Debug, Clone)]
pub struct Kit {
    binary: PathBuf,
    home: PathBuf,
    temporary: PathBuf,
}

/// Returns the home that tests and examples of the package at `manifest` share.
#[must_use]
pub fn shared_home(manifest: &str) -> PathBuf {
    std::env::var_os(HOME_VAR).map_or_else(|| Path::new(manifest).join("target/codebox-home"), PathBuf::from)
}

impl Kit {
    /// Creates a kit for `binary` (`CARGO_BIN_EXE_codebox`) that works below `temporary` (`CARGO_TARGET_TMPDIR`).
    ///
    /// Installs no runtime; [`prepare`](Self::prepare) does that.
    #[must_use]
    pub fn new(binary: &str, temporary: &str) -> Self {
        let temporary = PathBuf::from(temporary);
        let home = std::env::var_os(HOME_VAR).map_or_else(|| temporary.with_file_name("codebox-home"), PathBuf::from);
        Self { binary: binary.into(), home, temporary }
    }

    /// Prepares the shared home: fetches missing runtimes and compiles stale ones.
    ///
    /// Concurrent processes wait for each other. A prepared home takes milliseconds.
    ///
    /// # Errors
    /// Fails with the program's output if a runtime is not available, for example without a network.
    pub fn prepare(&self) -> Result<()> {
        self.prepare_runtime("python")?;
        self.prepare_runtime("javascript")?;
        self.add_lua()
    }

    /// Registers Lua, which is installed like a user's component, in the shared home.
    ///
    /// # Errors
    /// Fails as [`add_runtime`](Self::add_runtime) does.
    pub fn add_lua(&self) -> Result<()> {
        let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-runtimes/lua");
        self.add_runtime("lua", &runtime.join("lua.wasm"), &runtime.join("runtime.toml"))
    }

    /// Prepares all code and images of one runtime in the shared home.
    ///
    /// # Errors
    /// Fails as [`prepare`](Self::prepare) does.
    pub fn prepare_runtime(&self, runtime: &str) -> Result<()> {
        // The user's environment configures the package sources, so this command alone keeps it.
        let ran = self.setup_command()?.inherit_env().args(["runtime", "prepare", runtime]).run()?;
        if ran.code != Some(0) {
            bail!("cannot prepare {runtime} in {}: {}", self.home.display(), combined_output(&ran));
        }
        Ok(())
    }

    /// Registers the component at `module` as the runtime of `language`, with its description.
    ///
    /// Replaces a runtime of the same name, which an earlier build may have left in the home.
    ///
    /// # Errors
    /// Fails with the program's output if it rejects the component.
    pub fn add_runtime(&self, language: &str, module: &Path, description: &Path) -> Result<()> {
        let add = || -> Result<_> {
            let command = self.setup_command()?.args(["runtime", "add"]).arg(module);
            command.arg("--description").arg(description).run()
        };
        let first = add()?;
        if first.code == Some(0) {
            return Ok(());
        }
        let removed = self.setup_command()?.args(["runtime", "remove", language]).run()?;
        let second = add()?;
        if second.code != Some(0) {
            let (first, removed, second) =
                (combined_output(&first), combined_output(&removed), combined_output(&second));
            bail!("cannot add {}: {first}; after its removal ({removed}): {second}", module.display());
        }
        Ok(())
    }

    /// Returns a command with the shared home, which it creates, and with the deadline for fetching and compiling.
    fn setup_command(&self) -> Result<Codebox> {
        fs::create_dir_all(&self.home).with_context(|| format!("create {}", self.home.display()))?;
        Ok(self.codebox().deadline(INSTALL_TIMEOUT))
    }

    /// Returns the program under test.
    #[must_use]
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Returns the shared home.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the directory for files that this target's tests fetch.
    #[must_use]
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Returns a command with the shared home and an empty environment.
    #[must_use]
    pub fn codebox(&self) -> Codebox {
        Codebox::new(&self.binary, &self.home)
    }

    /// Returns a command for `codebox run --json` in WebAssembly, with the shared home and an empty environment.
    #[must_use]
    pub fn run_json(&self) -> Codebox {
        self.codebox().args(["run", "--json", "--isolation", "wasm"])
    }

    /// Creates a directory on the disk that holds the builds; it is removed when dropped.
    ///
    /// # Errors
    /// Fails if the directory cannot be created.
    pub fn folder(&self) -> Result<TempDir> {
        fs::create_dir_all(&self.temporary)?;
        Ok(tempfile::Builder::new().prefix("codebox-test-").tempdir_in(&self.temporary)?)
    }

    /// Lists the directory of running jobs, which is empty if no job runs and none left files behind.
    #[must_use]
    pub fn scratch_entries(&self) -> Vec<String> {
        let entries = fs::read_dir(self.home.join("cache/scratch")).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

/// Joins the output and the error output of a command.
fn combined_output(ran: &ProcessResult) -> String {
    format!("{} {}", ran.stdout_text().trim(), ran.stderr_text().trim()).trim().to_owned()
}
