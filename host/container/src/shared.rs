//! State that the backends of both engines and their instances share.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use codebox_analysis::Analyzer;
use codebox_files::{ProgramFile, Scratch};

use crate::discover::{Candidate, EngineAddress};
use crate::error::ContainerError;
use crate::facts_cache::FactsCache;
use crate::home_secret::HomeSecret;
use crate::images::ImageTable;
use crate::labels::Owner;

/// State of a backend that its instances share.
pub(crate) struct Shared {
    pub candidates: Vec<Candidate>,
    pub images: ImageTable,
    pub scratch: Arc<Scratch>,
    pub owner: Owner,
    pub ca_bundle: Option<PathBuf>,
    pub facts_cache: FactsCache,
    pub analyzer: Analyzer,
    pub folder: PathBuf,
    agent: OnceLock<ProgramFile>,
    secret: OnceLock<HomeSecret>,
}

impl Shared {
    /// Creates the state of the backends of both engines.
    pub(crate) fn new(
        candidates: Vec<Candidate>,
        images: ImageTable,
        scratch: Arc<Scratch>,
        folder: PathBuf,
        ca_bundle: Option<PathBuf>,
        analyzer: Analyzer,
    ) -> Self {
        Self {
            candidates,
            images,
            owner: Owner::at(scratch.path()),
            scratch,
            ca_bundle,
            facts_cache: FactsCache::in_dir(folder.join("engines")),
            analyzer,
            folder,
            agent: OnceLock::new(),
            secret: OnceLock::new(),
        }
    }

    /// Returns the agent's program file, and installs it on the first call.
    pub(crate) fn agent(&self) -> Result<&ProgramFile, ContainerError> {
        if let Some(agent) = self.agent.get() {
            return Ok(agent);
        }
        let agent = crate::agent_file::agent_program(&self.folder)?;
        Ok(self.agent.get_or_init(|| agent))
    }

    /// Returns the secret of this home, which identifies the home's containers.
    pub(crate) fn secret(&self) -> Result<&HomeSecret, ContainerError> {
        if let Some(secret) = self.secret.get() {
            return Ok(secret);
        }
        let secret =
            HomeSecret::load_or_create(&self.folder).map_err(ContainerError::io("create a secret in", &self.folder))?;
        Ok(self.secret.get_or_init(|| secret))
    }

    /// Returns the directory for mounts of granted directories. It is beside the private directories and never below
    /// one, because the contents of private directories are removed.
    pub(crate) fn mounts_dir(&self) -> PathBuf {
        self.owners().with_file_name("mounts")
    }

    /// Returns the sockets at which engines may listen.
    pub(crate) fn engine_sockets(&self) -> Vec<PathBuf> {
        let socket = |candidate: &Candidate| match &candidate.place {
            EngineAddress::Unix(path) => Some(path.clone()),
            EngineAddress::Tcp(_) | EngineAddress::Unusable(_) => None,
        };
        self.candidates.iter().filter_map(socket).collect()
    }

    /// Returns the parent directory of all owners' private directories.
    pub(crate) fn owners(&self) -> &Path {
        let own = self.scratch.path();
        own.parent().unwrap_or(own)
    }
}
