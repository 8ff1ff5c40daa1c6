//! Removal of leftovers from dead owners. A leftover is removed only if it provably belongs to this home and provably
//! has no owner.
//!
//! A container belongs to this home if all of these conditions hold:
//!
//! - Its labels name this home, which is the directory below which this user's codebox keeps private directories, and
//!   prove it with the home's secret.
//! - Its image does not have the same proof, because a container inherits the labels of its image.
//! - Its name is one that codebox gives.
//! - It starts our agent.
//!
//! An owner is dead if it belongs to an earlier boot, or if no process holds the lock in the owner's private directory.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{ContainerInspectResponse, ContainerSummary};
use bollard::query_parameters::{ListContainersOptions, ListContainersOptionsBuilder};
use codebox_agent::AGENT_PATH;
use codebox_core::{Leftover, Sweep};
use codebox_files::is_in_use;
use tokio::time::{Instant, sleep};

use crate::engine::{CALL_TIMEOUT, Engine};
use crate::error::ContainerError;
use crate::home_secret::HomeSecret;
use crate::instance::remove;
use crate::labels::{BOOT, BOX, HOME, OWNER, Owner, PROOF, is_container_name};

/// Finds the containers of dead owners, and removes them if `sweep` is true. `scratch` is the parent directory of the
/// owners' private directories.
pub(crate) async fn containers(
    engine: &Engine,
    own: &Owner,
    secret: &HomeSecret,
    scratch: &Path,
    sweep: Sweep,
) -> Result<Vec<Leftover>, ContainerError> {
    let filters: HashMap<String, Vec<String>> =
        [("label".to_owned(), vec![format!("{HOME}={}", own.home)])].into_iter().collect();
    let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
    let Engine { client, facts, .. } = engine;
    let found = list_with_retry(client, options).await?;
    let mut leftovers = Vec::new();
    for container in found {
        let (Some(id), Some(labels)) = (container.id, container.labels) else { continue };
        // Checked again, because an engine may ignore the filter.
        if labels.get(HOME) != Some(&own.home) || !is_orphaned(&labels, own, scratch) {
            continue;
        }
        // A container that cannot be inspected is left to the next sweep.
        let Ok(Some(name)) = verified_name(client, &id, secret).await else { continue };
        let kept = match sweep {
            Sweep::DryRun => None,
            Sweep::Remove => remove(client, &id).await.err().map(|error| error.to_string()),
        };
        leftovers.push(Leftover { kind: "container".to_owned(), name, place: facts.flavour.as_str().to_owned(), kept });
    }
    Ok(leftovers)
}

/// Returns the name of a container that this home created, and `None` for any other.
async fn verified_name(client: &Docker, id: &str, secret: &HomeSecret) -> Result<Option<String>, ContainerError> {
    let Some(found) = inspect_with_retry(client, id).await? else { return Ok(None) };
    let is_serving = |args: &[String]| args.first().is_some_and(|first| first == "serve");
    let is_agent = found.path.as_deref() == Some(AGENT_PATH) && found.args.as_deref().is_some_and(is_serving);
    let name = found.name.unwrap_or_default().trim_start_matches('/').to_owned();
    let labels = found.config.and_then(|config| config.labels).unwrap_or_default();
    let Some(image) = found.image.filter(|_| is_agent && has_valid_proof(&name, &labels, secret)) else {
        return Ok(None);
    };
    let image = client.inspect_image(&image).await.map_err(ContainerError::call("inspect an image"))?;
    let inherited = image.config.and_then(|config| config.labels).unwrap_or_default();
    // An image that was created from a container of codebox carries the proof of that container.
    Ok((inherited.get(PROOF) != labels.get(PROOF)).then_some(name))
}

/// Returns true if the labels belong to a container of this name that was created with this secret.
fn has_valid_proof(name: &str, labels: &HashMap<String, String>, secret: &HomeSecret) -> bool {
    let is_box = labels.get(BOX).is_some_and(|own| own == name);
    let has_name = is_box || labels.get(OWNER).is_some_and(|owner| is_container_name(name, owner));
    has_name && labels.get(PROOF) == Some(&secret.proof(name))
}

/// Inspects a container. Returns `None` if the container no longer exists.
async fn inspect_with_retry(client: &Docker, id: &str) -> Result<Option<ContainerInspectResponse>, ContainerError> {
    let until = Instant::now() + CALL_TIMEOUT;
    loop {
        match client.inspect_container(id, None).await {
            Ok(found) => return Ok(Some(found)),
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => return Ok(None),
            // Podman reports `stopped`, as described at `list_with_retry`.
            Err(Error::JsonDataError { .. }) if Instant::now() < until => sleep(Duration::from_millis(50)).await,
            Err(error) => return Err(ContainerError::call("inspect a container")(error)),
        }
    }
}

/// Lists the containers that match the options.
///
/// Podman reports the state of a container that has just ended as `stopped`, which the API does not define, until
/// Podman has cleaned up after the container.
async fn list_with_retry(
    client: &Docker,
    options: ListContainersOptions,
) -> Result<Vec<ContainerSummary>, ContainerError> {
    let until = Instant::now() + CALL_TIMEOUT;
    loop {
        match client.list_containers(Some(options.clone())).await {
            Err(Error::JsonDataError { .. }) if Instant::now() < until => sleep(Duration::from_millis(50)).await,
            found => return found.map_err(ContainerError::call("list containers")),
        }
    }
}

fn is_orphaned(labels: &HashMap<String, String>, own: &Owner, scratch: &Path) -> bool {
    let (Some(owner), Some(boot)) = (labels.get(OWNER), labels.get(BOOT)) else { return false };
    *boot != own.boot || (*owner != own.name && !is_alive(owner, scratch))
}

/// Returns true if an owner is alive, or if the name is not that of an owner, whose leftovers must not be touched.
fn is_alive(owner: &str, scratch: &Path) -> bool {
    let is_name = owner.strip_prefix("run-").is_some_and(|rest| rest.chars().all(|c| c.is_ascii_alphanumeric()));
    !is_name || is_in_use(&scratch.join(owner))
}

/// Finds the mounts of dead owners below `mounts_dir`, and removes them if `sweep` is true.
pub(crate) fn mounts(mounts_dir: &Path, scratch: &Path, sweep: Sweep) -> Vec<Leftover> {
    let mut leftovers = Vec::new();
    for entry in fs::read_dir(mounts_dir).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        // The name consists of the owner, a number of the instance, and the index of the grant.
        let Some(owner) = name.rsplitn(3, '-').nth(2) else { continue };
        if is_alive(owner, scratch) {
            continue;
        }
        #[cfg(target_os = "linux")]
        if sweep == Sweep::Remove {
            crate::owners::detach_mount(&entry.path());
        }
        let kept = (sweep == Sweep::Remove && entry.path().exists()).then(|| "it is still in use".to_owned());
        leftovers.push(Leftover { kind: "mount".to_owned(), name, place: "this machine".to_owned(), kept });
    }
    leftovers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(owner: &str, boot: &str) -> HashMap<String, String> {
        [(HOME, "h"), (OWNER, owner), (BOOT, boot)].map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    #[test]
    fn proof_is_valid_for_its_container_name_only() {
        let [home, other] = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
        let [secret, others] =
            [&home, &other].map(|dir| HomeSecret::load_or_create(dir.path()).expect("the secret is created"));
        let owner = Owner { home: "h".into(), name: "run-me".into(), boot: "b".into() };
        let name = "codebox-run-me-0123abcd";
        let labels = owner.labels(name, &secret, None);
        assert!(has_valid_proof(name, &labels, &secret));
        assert!(!has_valid_proof("codebox-run-me-0123abce", &labels, &secret));
        assert!(!has_valid_proof(name, &labels, &others));
        for name in ["codebox-run-me", "run-me-0123abcd", "codebox-run-me-0123abcdx", "codebox-run-you-0123abcd", "web"]
        {
            assert!(!has_valid_proof(name, &owner.labels(name, &secret, None), &secret), "{name}");
        }
        for missing in [OWNER, PROOF] {
            let mut labels = labels.clone();
            labels.remove(missing);
            assert!(!has_valid_proof(name, &labels, &secret), "{missing}");
        }
    }

    #[test]
    fn o3_sweeps_only_orphaned_containers() {
        let scratch = tempfile::tempdir().expect("a directory");
        let own = Owner { home: "h".into(), name: "run-me".into(), boot: "b".into() };
        let is = |owner: &str, boot: &str| is_orphaned(&labels(owner, boot), &own, scratch.path());
        assert!(is("run-gone", "b"));
        assert!(is("run-me", "an earlier one"));
        assert!(!is("run-me", "b"));
        // A name that is not an owner's must not be used as a path on this machine.
        assert!(!is("../../etc", "b") && !is("", "b"));
        let living = scratch.path().join("run-living");
        fs::create_dir(&living).expect("can be created");
        let lock = fs::File::create(living.join("lock")).expect("can be written");
        lock.lock().expect("the lock is free");
        assert!(!is("run-living", "b"));
        drop(lock);
        assert!(is("run-living", "b"));
        assert!(!is_orphaned(&HashMap::new(), &own, scratch.path()));
    }
}
