//! Paths of this workspace, and the build of its binary.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Workspace, its target directory, and the home of the development runtime.
pub struct Project {
    pub root: PathBuf,
    pub target: PathBuf,
    /// Value of `CODEBOX_HOME` for every process that a task starts.
    pub home: PathBuf,
}

impl Project {
    /// Finds the workspace that this program was built from, and the target directory that cargo uses now.
    ///
    /// # Errors
    /// Fails if the workspace has moved since the build.
    pub fn find() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().context("find the workspace")?;
        let named = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(|value| root.join(value));
        let target = named("CARGO_TARGET_DIR").unwrap_or_else(|| root.join("target"));
        let home = match env::var_os("CODEBOX_HOME").filter(|value| !value.is_empty()) {
            Some(home) => std::path::absolute(home).context("make CODEBOX_HOME absolute")?,
            None => target.join("codebox-home"),
        };
        Ok(Self { root, target, home })
    }

    /// Returns a command for the cargo that runs this program, in the workspace.
    pub fn cargo(&self) -> Command {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
        cargo.current_dir(&self.root);
        cargo
    }

    /// Builds the release binary and returns its path.
    ///
    /// # Errors
    /// Fails if the binary cannot be built.
    pub fn binary(&self) -> Result<PathBuf> {
        let mut build = self.cargo();
        // The build covers all test targets: a smaller one would select other features of dependencies, and cargo would
        // then rebuild those for the tests.
        build.args(["build", "--release", "--workspace", "--all-targets"]);
        ensure!(build.status().context("start cargo")?.success(), "codebox could not be built");
        let binary = self.target.join("release").join(format!("codebox{}", env::consts::EXE_SUFFIX));
        ensure!(binary.is_file(), "cargo left no binary at {}", binary.display());
        Ok(binary)
    }

    /// Replaces `codebox-run` by the one of releases, which is built without the compiler and the packages. A build of the workspace
    /// selects all features for all programs. Takes some minutes: most dependencies have other features as well.
    ///
    /// # Errors
    /// Fails if it cannot be built.
    pub fn build_run_program(&self, profile: &str) -> Result<()> {
        let mut build = self.cargo();
        build.args(["build", "--locked", "--profile", profile, "--package", "codebox", "--bin", "codebox-run"]);
        build.args(["--no-default-features", "--features", "cli"]);
        ensure!(build.status().context("start cargo")?.success(), "codebox-run could not be built");
        Ok(())
    }
}

/// Runs a command to its end and returns its standard output.
///
/// # Errors
/// Fails if the command cannot be started or fails; the message includes its standard error.
pub fn output_of(command: &mut Command) -> Result<String> {
    let command_line = command_line(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("start {command_line}"))?;
    ensure!(
        output.status.success(),
        "{command_line} failed ({}): {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    String::from_utf8(output.stdout).with_context(|| format!("{command_line} wrote something that is not UTF-8"))
}

/// Formats a command as a user would type it.
pub fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
