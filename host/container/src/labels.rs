//! Labels that identify the containers of codebox and their owners.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};

use crate::home_secret::HomeSecret;

/// Label for the home, below which the owner keeps its private directory. Each user's codebox has its own home.
pub(crate) const HOME: &str = "codebox.home";
/// Label for the owner: the name of the private directory whose lock the owner holds as long as it lives.
pub(crate) const OWNER: &str = "codebox.owner";
/// Label for the boot in which the container was created. Owners of earlier boots are dead.
pub(crate) const BOOT: &str = "codebox.boot";
/// Label for the proof that this home created the container: see [`HomeSecret::proof`].
pub(crate) const PROOF: &str = "codebox.proof";
/// Label for the time at which the container is over at the latest, in seconds since 1970, if it has a limit.
pub(crate) const DEADLINE: &str = "codebox.deadline";

/// Label for a box: its name, which is that of its container.
pub(crate) const BOX: &str = "codebox.box";

/// Owner of containers: its home, its name, and its boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub home: String,
    pub name: String,
    pub boot: String,
}

impl Owner {
    /// Returns the owner whose private directory is `scratch`.
    pub(crate) fn at(scratch: &Path) -> Self {
        let name = scratch.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Self { home: home_id(scratch.parent().unwrap_or(scratch)), name, boot: boot() }
    }

    /// Returns the labels of the container `container` that lives for at most `max_lifetime`.
    pub(crate) fn labels(
        &self,
        container: &str,
        secret: &HomeSecret,
        max_lifetime: Option<Duration>,
    ) -> HashMap<String, String> {
        let Self { home, name, boot } = self;
        let proof = secret.proof(container);
        let mut labels: HashMap<String, String> = [(HOME, home), (OWNER, name), (BOOT, boot), (PROOF, &proof)]
            .map(|(key, value)| (key.to_owned(), value.clone()))
            .into();
        let until = max_lifetime.and_then(|max_lifetime| SystemTime::now().checked_add(max_lifetime));
        if let Some(since) = until.and_then(|until| until.duration_since(SystemTime::UNIX_EPOCH).ok()) {
            labels.insert(DEADLINE.to_owned(), since.as_secs().to_string());
        }
        labels
    }
}

/// Generates a random name for a container of the owner `owner`.
pub(crate) fn container_name(owner: &str) -> String {
    format!("codebox-{owner}-{:08x}", rand::random::<u32>())
}

/// Returns true if a container of the owner `owner` could have this name.
pub(crate) fn is_container_name(name: &str, owner: &str) -> bool {
    let number =
        name.strip_prefix("codebox-").and_then(|rest| rest.strip_prefix(owner)).and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| {
        number.len() == 8 && number.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

/// Returns the name of a home for labels. It is a hash, so that the engine does not learn a path of the host.
pub(crate) fn home_id(parent: &Path) -> String {
    let canonical = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
    let digest = Sha256::digest(canonical.as_os_str().as_encoded_bytes());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the kernel's id of this boot, or an empty string if there is none.
pub(crate) fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}
