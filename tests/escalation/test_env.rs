//! Test environment of a case: a separate home of codebox with the runtimes of the shared one.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{BASE_IMAGE, Codebox, Input, Kit, ProcessResult, Report};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::engine::Engine;
use crate::residue;

/// One engine, and a codebox that no other test uses.
pub struct TestEnvironment {
    pub engine: Engine,
    kit: Kit,
    home: TempDir,
    root: TempDir,
}

impl TestEnvironment {
    pub fn new(kit: &Kit, engine: Engine) -> Result<Self> {
        let (home, root) = (kit.folder()?, kit.folder()?);
        fs::create_dir(root.path().join("granted"))?;
        let test_env = Self { engine, kit: kit.clone(), home, root };
        test_env.configure("")?;
        Ok(test_env)
    }

    /// Writes the configuration, which starts with these settings.
    pub fn configure(&self, settings: &str) -> Result<()> {
        self.kit.home_with_engine(self.home(), self.engine.name(), settings)
    }

    /// Adds Lua, with the test image as its image.
    pub fn add_lua(&self) -> Result<()> {
        self.kit.add_lua()?;
        let file = self.home().join("config/config.toml");
        let text = fs::read_to_string(&file)?;
        // The images are the last table.
        Ok(fs::write(file, format!("{text}lua = \"{BASE_IMAGE}\"\n"))?)
    }

    /// Returns the home of this environment's codebox.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Returns the working directory of commands.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Returns a directory to grant.
    pub fn granted_dir(&self) -> PathBuf {
        self.root().join("granted")
    }

    /// Writes a file into the working directory.
    pub fn write_file(&self, name: &str, text: &str) -> Result<()> {
        Ok(fs::write(self.root().join(name), text)?)
    }

    /// Returns a codebox command.
    pub fn codebox(&self) -> Codebox {
        self.kit.codebox().home(self.home()).folder(self.root())
    }

    /// Returns a `codebox run --json` command with these arguments.
    pub fn run(&self, arguments: &[&str]) -> Codebox {
        self.codebox().args(["run", "--json"]).args(arguments.iter().copied())
    }

    /// Returns a `codebox run --json` command with these arguments and unreachable engines.
    pub fn run_without_engines(&self, arguments: &[&str]) -> Codebox {
        let run = self.run(arguments).env("DOCKER_HOST", "unix:///no/docker.sock");
        run.env("CONTAINER_HOST", "unix:///no/podman.sock")
    }

    /// Runs a command to its end and returns its report.
    pub fn report(&self, command: Codebox) -> Result<Report> {
        let result = command.run()?;
        check_run(&result)?;
        let report = result.report()?;
        ensure!(result.code.map(i64::from) == report.exit_code(), "the status is {:?}: {}", result.code, report.json());
        Ok(report)
    }

    /// Runs a command line as if a user had pasted it into a shell.
    pub fn run_in_shell(&self, line: &str, input: &[u8]) -> Result<ProcessResult> {
        let bin = self.root().join("bin");
        fs::create_dir_all(&bin)?;
        let _ = fs::remove_file(bin.join("codebox"));
        symlink(self.kit.binary(), bin.join("codebox"))?;
        let file = self.root().join("input");
        fs::write(&file, input)?;
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", line]).current_dir(self.root()).env_clear();
        shell.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).env("CODEBOX_HOME", self.home());
        let output = shell.stdin(Stdio::from(fs::File::open(file)?)).output().context("run a shell")?;
        Ok(ProcessResult {
            code: output.status.code(),
            signal: None,
            timed_out: false,
            stdout: output.stdout,
            stderr: output.stderr,
            wall: std::time::Duration::ZERO,
            peak_rss: 0,
            peak_threads: 0,
        })
    }

    /// Lists the containers that exist now.
    pub fn containers(&self) -> Result<Vec<String>> {
        let root = self.home().canonicalize()?.join("cache/scratch");
        let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
        let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.engine.containers(&format!("codebox.home={name}"))
    }

    /// Returns true if this home has ever queried an engine: the description of an engine is cached.
    pub fn has_queried_engines(&self) -> bool {
        self.home().join("cache/containers/engines").exists()
    }

    /// Lists the processes of this environment's codebox, on standby or running.
    pub fn processes(&self) -> Vec<String> {
        let home = format!("CODEBOX_HOME={}", self.home().display());
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let uses_home = |pid: &String| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == home.as_bytes())
        };
        pids.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).filter(uses_home).collect()
    }

    /// Checks that no run left anything behind.
    pub fn check_nothing_left(&self) -> Result<()> {
        residue::wait_until_empty(|| {
            let mut remains = residue::find_remains(self, &[])?;
            remains.extend(self.processes().into_iter().map(|pid| format!("process {pid}")));
            Ok(remains)
        })
    }
}

/// Checks the properties of every run, whatever the program does: codebox ends by itself and does not fail.
pub fn check_run(result: &ProcessResult) -> Result<()> {
    ensure!(!result.timed_out, "timed out: {}", result.stderr_text());
    ensure!(result.signal.is_none(), "codebox was ended by signal {:?}: {}", result.signal, result.stderr_text());
    ensure!(!result.stderr_text().contains("panicked"), "codebox panicked: {}", result.stderr_text());
    Ok(())
}

/// Returns bytes as standard input.
pub fn bytes(text: impl Into<Vec<u8>>) -> Input {
    Input::Bytes(text.into())
}
