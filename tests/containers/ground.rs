//! The ground that a row is tried on: a home of codebox's of its own, canaries around it, and a look at what is left.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result, bail, ensure};
use codebox_testkit::{BASE_IMAGE, Canaries, Codebox, HOSTILE_IMAGE, Kit, Ran, Report};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::engine::Engine;
use crate::residue;

/// One engine, and a codebox that nobody else uses.
pub struct Ground {
    pub engine: Engine,
    pub kit: Kit,
    pub canaries: Canaries,
    home: TempDir,
    /// The containers that reports named.
    seen: Mutex<Vec<String>>,
}

impl Ground {
    pub fn new(kit: &Kit, engine: Engine) -> Result<Self> {
        let (canaries, home) = (Canaries::plant(kit)?, kit.folder()?);
        std::fs::create_dir(home.path().join("config"))?;
        Ok(Self { engine, kit: kit.clone(), canaries, home, seen: Mutex::default() })
    }

    /// The home of this ground's codebox.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The label that every container of this ground has: the digest of where its codebox keeps private directories.
    pub fn label(&self) -> Result<String> {
        let place = self.home().canonicalize()?.join("cache/scratch");
        let digest = Sha256::digest(place.as_os_str().as_encoded_bytes());
        let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Ok(format!("codebox.home={name}"))
    }

    /// The containers that are there now.
    pub fn containers(&self) -> Result<Vec<String>> {
        self.engine.containers(&self.label()?)
    }

    /// A command of this ground's codebox, with a secret in its environment.
    pub fn codebox(&self) -> Codebox {
        self.canaries.around(self.kit.codebox().home(self.home()))
    }

    /// `codebox run --json` with this image on this engine.
    pub fn run_image(&self, image: &str) -> Codebox {
        let place = ["run", "--json", "--isolation", "container", "--engine", self.engine.name(), "--image", image];
        self.codebox().args(place)
    }

    /// The same with the image that tests have.
    pub fn run(&self) -> Codebox {
        self.run_image(BASE_IMAGE)
    }

    /// The same with the hostile image.
    pub fn run_hostile(&self) -> Codebox {
        self.run_image(HOSTILE_IMAGE)
    }

    /// The same with the canaries' directory, writable, as `/data`.
    pub fn run_granted(&self) -> Codebox {
        self.run().grant(&self.canaries.grant(), "/data", "rw")
    }

    /// What holds of every run, whatever the job does: codebox ends by itself, is not at fault, and no canary shows.
    pub fn judge(&self, ran: &Ran) -> Result<Report> {
        ensure!(!ran.hung, "it hung");
        ensure!(ran.signal.is_none(), "codebox was ended by signal {:?}: {}", ran.signal, ran.stderr_text());
        ensure!(!ran.stderr_text().contains("panicked"), "codebox panicked: {}", ran.stderr_text());
        let report = ran.report()?;
        if !report.at("/error/kind").is_null() || report.kind() == "internal_error" {
            bail!("codebox failed: {}", report.json());
        }
        ensure!(ran.code.map(i64::from) == report.exit_code(), "the status is {:?}", ran.code);
        let id = report.at("/provenance/container_id").as_str().context("no container is named")?;
        self.seen().push(id.to_owned());
        self.canaries.check(ran)?;
        Ok(report)
    }

    /// Runs a job that has to end so.
    pub fn ends(&self, kind: &str, status: i64, job: Codebox) -> Result<Report> {
        let report = self.judge(&job.run()?)?;
        let ended = (report.kind(), report.exit_code());
        let (out, err) = (tail(report.stdout()), tail(report.stderr()));
        ensure!(
            ended == (kind, Some(status)),
            "it ended as {ended:?}, not {kind} {status}\nstdout: {out}\nstderr: {err}"
        );
        Ok(report)
    }

    fn seen(&self) -> MutexGuard<'_, Vec<String>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a container that no report tells of.
    pub fn saw(&self, id: &str) {
        self.seen().push(id.to_owned());
    }

    /// Checks that nothing of any run is left.
    pub fn check_nothing_left(&self) -> Result<()> {
        let seen = self.seen().clone();
        residue::settle(|| residue::of(self, &seen))
    }
}

/// A program of this target.
pub fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/containers/programs").join(name)
}

/// The end of a text.
pub fn tail(text: &str) -> String {
    let skipped = text.chars().count().saturating_sub(900);
    text.chars().skip(skipped).collect()
}
