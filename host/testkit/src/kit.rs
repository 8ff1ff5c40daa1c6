//! The program under test and the home that tests share.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use crate::{Codebox, Ran};

/// The variable that names a home with a runtime in it, to be used instead of the tests' own.
const HOME: &str = "CODEBOX_TEST_HOME";

/// Most time that fetching and compiling a runtime may take.
const INSTALL: Duration = Duration::from_secs(900);

/// The program under test, and where it keeps its runtime.
#[derive(Debug, Clone)]
pub struct Kit {
    binary: PathBuf,
    home: PathBuf,
    temporary: PathBuf,
}

/// The home that tests and examples of the package at `manifest` share.
#[must_use]
pub fn shared_home(manifest: &str) -> PathBuf {
    std::env::var_os(HOME).map_or_else(|| Path::new(manifest).join("target/codebox-home"), PathBuf::from)
}

impl Kit {
    /// A kit for `binary` (`CARGO_BIN_EXE_codebox`), working below `temporary` (`CARGO_TARGET_TMPDIR`).
    ///
    /// Nothing is installed yet; [`prepare`](Self::prepare) does that.
    #[must_use]
    pub fn new(binary: &str, temporary: &str) -> Self {
        let temporary = PathBuf::from(temporary);
        let home = std::env::var_os(HOME).map_or_else(|| temporary.with_file_name("codebox-home"), PathBuf::from);
        Self { binary: binary.into(), home, temporary }
    }

    /// Makes the shared home ready: fetches runtimes where they are missing and compiles them where they are stale.
    ///
    /// Processes that do this at one time wait for each other; afterwards it takes milliseconds.
    ///
    /// # Errors
    /// What the program said, when it cannot be had, for example for want of a network.
    pub fn prepare(&self) -> Result<()> {
        self.prepare_language("python", "pass")?;
        self.prepare_language("javascript", "0")?;
        self.add_lua()
    }

    /// Registers Lua, which comes as a user's own component, in the shared home.
    ///
    /// # Errors
    /// As [`add_runtime`](Self::add_runtime).
    pub fn add_lua(&self) -> Result<()> {
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-runtimes/lua/lua.wasm");
        self.add_runtime(&module, "lua", "lua")
    }

    /// Makes the shared home ready for one language, by running `program`, which does nothing.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub fn prepare_language(&self, language: &str, program: &str) -> Result<()> {
        // The user's settings say where packages come from, so this one run keeps the environment.
        let ran = self.set_up()?.inherit_env().args(["run", "--lang", language, "-c", program]).run()?;
        if ran.code != Some(0) {
            bail!("no runtime for {language} in {}: {}", self.home.display(), said(&ran));
        }
        Ok(())
    }

    /// Registers the component at `module` as the runtime of `language` and of files with this ending.
    ///
    /// A home that an earlier build used may have another build's runtime of that name, which gives way.
    ///
    /// # Errors
    /// What the program said, when it refuses the component.
    pub fn add_runtime(&self, module: &Path, language: &str, ending: &str) -> Result<()> {
        let add = || -> Result<_> {
            let command = self.set_up()?.args(["runtime", "add"]).arg(module);
            command.args(["--lang", language, "--ext", ending]).run()
        };
        let first = add()?;
        if first.code == Some(0) {
            return Ok(());
        }
        let removed = self.set_up()?.args(["runtime", "remove", language]).run()?;
        let second = add()?;
        if second.code != Some(0) {
            let (first, removed, second) = (said(&first), said(&removed), said(&second));
            bail!("cannot add {}: {first}; after its removal ({removed}): {second}", module.display());
        }
        Ok(())
    }

    /// A command with the shared home, which is there, and with the time that fetching and compiling may take.
    fn set_up(&self) -> Result<Codebox> {
        fs::create_dir_all(&self.home).with_context(|| format!("create {}", self.home.display()))?;
        Ok(self.codebox().deadline(INSTALL))
    }

    /// The program under test.
    #[must_use]
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// The shared home.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Where this target's tests may keep what they fetched.
    #[must_use]
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// A command with the shared home and an empty environment.
    #[must_use]
    pub fn codebox(&self) -> Codebox {
        Codebox::new(&self.binary, &self.home)
    }

    /// The same, for `codebox run --json` in this tier.
    #[must_use]
    pub fn run_json(&self) -> Codebox {
        self.codebox().args(["run", "--json", "--isolation", "wasm"])
    }

    /// A fresh directory on the disk that builds live on, removed when dropped.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn folder(&self) -> Result<TempDir> {
        fs::create_dir_all(&self.temporary)?;
        Ok(tempfile::Builder::new().prefix("codebox-test-").tempdir_in(&self.temporary)?)
    }

    /// Entries in the directory of running jobs: none when nothing runs and nothing was left behind.
    #[must_use]
    pub fn scratch_entries(&self) -> Vec<String> {
        let entries = fs::read_dir(self.home.join("cache/scratch")).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

/// All that a command printed.
fn said(ran: &Ran) -> String {
    format!("{} {}", ran.stdout_text().trim(), ran.stderr_text().trim()).trim().to_owned()
}
