//! Test environment of a row: a separate home of codebox, canaries around it, and a check for remains.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result, bail, ensure};
use codebox_testkit::{BASE_IMAGE, Canaries, Codebox, HOSTILE_IMAGE, Kit, ProcessResult, Report};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::engine::Engine;
use crate::residue;

/// One engine, and a codebox that no other test uses.
pub struct TestEnvironment {
    pub engine: Engine,
    pub kit: Kit,
    pub canaries: Canaries,
    home: TempDir,
    /// Containers that reports named.
    known_containers: Mutex<Vec<String>>,
}

impl TestEnvironment {
    pub fn new(kit: &Kit, engine: Engine) -> Result<Self> {
        let (canaries, home) = (Canaries::plant(kit)?, kit.folder()?);
        std::fs::create_dir(home.path().join("config"))?;
        Ok(Self { engine, kit: kit.clone(), canaries, home, known_containers: Mutex::default() })
    }

    /// Returns the home of this environment's codebox.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Returns the label of all containers of this environment: the digest of the path of the private directories.
    pub fn label(&self) -> Result<String> {
        let scratch = self.home().canonicalize()?.join("cache/scratch");
        let digest = Sha256::digest(scratch.as_os_str().as_encoded_bytes());
        let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Ok(format!("codebox.home={name}"))
    }

    /// Lists the containers that exist now.
    pub fn containers(&self) -> Result<Vec<String>> {
        self.engine.containers(&self.label()?)
    }

    /// Returns a codebox command with a secret in its environment.
    pub fn codebox(&self) -> Codebox {
        self.canaries.around(self.kit.codebox().home(self.home()))
    }

    /// Returns a `codebox run --json` command with this image on this engine.
    pub fn run_image(&self, image: &str) -> Codebox {
        let options = ["run", "--json", "--isolation", "container", "--engine", self.engine.name(), "--image", image];
        self.codebox().args(options)
    }

    /// Returns a `codebox run --json` command with the test image.
    pub fn run(&self) -> Codebox {
        self.run_image(BASE_IMAGE)
    }

    /// Returns a `codebox run --json` command with the hostile image.
    pub fn run_hostile(&self) -> Codebox {
        self.run_image(HOSTILE_IMAGE)
    }

    /// Returns a `codebox run --json` command with the test image and the canaries' directory, writable, as `/data`.
    pub fn run_granted(&self) -> Codebox {
        self.run().grant(&self.canaries.grant(), "/data", "rw")
    }

    /// Checks the properties of every run: codebox ends by itself, does not fail, and no canary shows.
    pub fn check_run(&self, result: &ProcessResult) -> Result<Report> {
        ensure!(!result.timed_out, "timed out");
        ensure!(result.signal.is_none(), "codebox was ended by signal {:?}: {}", result.signal, result.stderr_text());
        ensure!(!result.stderr_text().contains("panicked"), "codebox panicked: {}", result.stderr_text());
        let report = result.report()?;
        if !report.at("/error/kind").is_null() || report.kind() == "internal_error" {
            bail!("codebox failed: {}", report.json());
        }
        ensure!(result.code.map(i64::from) == report.exit_code(), "the status is {:?}", result.code);
        let id = report.at("/provenance/container_id").as_str().context("no container is named")?;
        self.known_containers().push(id.to_owned());
        self.canaries.check(result)?;
        Ok(report)
    }

    /// Runs a job and checks its kind and exit status.
    pub fn run_expecting(&self, kind: &str, status: i64, job: Codebox) -> Result<Report> {
        let report = self.check_run(&job.run()?)?;
        let actual = (report.kind(), report.exit_code());
        let (out, err) = (tail(report.stdout()), tail(report.stderr()));
        ensure!(
            actual == (kind, Some(status)),
            "unexpected result {actual:?}, expected {kind} {status}\nstdout: {out}\nstderr: {err}"
        );
        Ok(report)
    }

    fn known_containers(&self) -> MutexGuard<'_, Vec<String>> {
        self.known_containers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a container that no report names.
    pub fn record_container(&self, id: &str) {
        self.known_containers().push(id.to_owned());
    }

    /// Checks that no run left anything behind.
    pub fn check_nothing_left(&self) -> Result<()> {
        let known_containers = self.known_containers().clone();
        residue::wait_until_empty(|| residue::find_remains(self, &known_containers))
    }
}

/// Returns the path of a program of this test target.
pub fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/containers/programs").join(name)
}

/// Returns the end of a text.
pub fn tail(text: &str) -> String {
    let skipped = text.chars().count().saturating_sub(900);
    text.chars().skip(skipped).collect()
}
