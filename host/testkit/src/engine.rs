//! Container engines that the tests use; `tests/engines/up` starts them.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::Kit;

/// Image that both engines have for tests, with Python and Node.
pub const BASE_IMAGE: &str = "localhost/codebox-test:1";

/// Image with hostile content.
pub const HOSTILE_IMAGE: &str = "localhost/codebox-hostile:1";

/// Checks that an engine responds and runs a program in the test image.
///
/// # Errors
/// Fails with codebox's standard error if the program does not run.
pub fn check_engine(kit: &Kit, engine: &str) -> Result<()> {
    let options = ["run", "--isolation", "container", "--engine", engine, "--image", BASE_IMAGE];
    let ran = kit.codebox().args(options).args(["--lang", "python", "-c", "print(6*7)"]).run()?;
    let error_text = ran.stderr_text();
    ensure!(ran.stdout_text() == "42\n", "{engine} cannot be used; run tests/engines/up: {}", error_text.trim());
    Ok(())
}

/// Variables that could point an engine's own CLI at another engine than codebox uses; codebox runs with an empty
/// environment.
const ENGINE_ADDRESS_VARS: [&str; 5] =
    ["DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "CONTAINER_HOST", "CONTAINER_CONNECTION"];

/// Runs an engine's own CLI and returns its standard output.
///
/// # Errors
/// Fails with the CLI's standard error if the CLI fails.
pub fn engine_output(engine: &str, args: &[&str]) -> Result<String> {
    let mut tool = Command::new(engine);
    for name in ENGINE_ADDRESS_VARS {
        tool.env_remove(name);
    }
    let output = tool.args(args).output().with_context(|| format!("run {engine}"))?;
    let error_text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{engine} {args:?}: {}", error_text.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl Kit {
    /// Creates `home` as a separate home whose configuration selects this engine and the test image for all container
    /// runs. `settings` are the first lines of the configuration. The runtimes are those of the shared home.
    ///
    /// # Errors
    /// Fails if the home cannot be written.
    pub fn home_with_engine(&self, home: &Path, engine: &str, settings: &str) -> Result<()> {
        self.share_runtimes(home)?;
        fs::create_dir_all(home.join("config"))?;
        let images: String =
            ["python", "javascript", "command"].map(|key| format!("{key} = \"{BASE_IMAGE}\"\n")).concat();
        let text = format!("{settings}engine = \"{engine}\"\n[images]\n{images}");
        Ok(fs::write(home.join("config/config.toml"), text)?)
    }
}
