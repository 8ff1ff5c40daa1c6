//! Jobs in running containers that codebox has not made.
//!
//! The agent is copied into the container and started there by the engine's `exec`. It is removed with the last connection to it. Where
//! it cannot run, jobs are programs that the engine itself starts, and the report says so.
//!
//! The container has the isolation that its maker gave it. Codebox only lists its powers over this machine.

use std::collections::BTreeMap;
use std::time::Duration;

use bollard::errors::Error;
use bollard::models::ContainerInspectResponse;
use codebox_core::{
    BackendError, BoxFuture, ContainerHost, EnforcementLevel, Instance, InstanceSpec, LayerState, LimitKind,
    RunningContainer, SandboxLayer,
};
use tokio::time::{Instant, sleep, timeout_at};

use crate::backend::ContainerBackend;
use crate::engine::{CALL_TIMEOUT, Engine};
use crate::error::ContainerError;
use crate::labels;
use crate::shared::Shared;

mod agent;
mod exec;
mod facts;
mod instance;
mod kernel;
mod without_agent;

use agent::AgentDir;
use instance::AttachedInstance;
use without_agent::ExecInstance;

/// The operation in error messages.
const OPERATION: &str = "read the settings of a container";

/// Pause between two queries.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Returns the engine's description of a running container.
async fn inspect(engine: &Engine, id: &str) -> Result<ContainerInspectResponse, ContainerError> {
    let refused = |why: &str| ContainerError::Input { subject: format!("container {id}"), why: why.to_owned() };
    // The engine would read other characters as parts of a path.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if id.is_empty() || !id.chars().all(is_plain) {
        return Err(refused("it is neither the id nor the name of a container"));
    }
    let until = Instant::now() + CALL_TIMEOUT;
    let found = loop {
        let called = timeout_at(until, engine.client.inspect_container(id, None)).await;
        let called = called.map_err(|late| ContainerError::Lost { doing: OPERATION, source: Box::new(late) })?;
        match called {
            Ok(found) => break found,
            // A state that the API does not define, which Podman reports until it has cleaned up after a container.
            Err(Error::JsonDataError { .. }) if Instant::now() + POLL_INTERVAL < until => sleep(POLL_INTERVAL).await,
            Err(error) => match ContainerError::call(OPERATION)(error) {
                ContainerError::Gone { .. } => {
                    return Err(refused(&format!("{} has no such container", engine.facts.flavour)));
                }
                error => return Err(error),
            },
        }
    };
    let state = found.state.as_ref();
    if state.and_then(|state| state.running) != Some(true) || state.and_then(|state| state.paused) == Some(true) {
        return Err(refused("it is not running"));
    }
    let labels = found.config.as_ref().and_then(|config| config.labels.as_ref());
    if labels.is_some_and(|labels| labels.contains_key(labels::BOX)) {
        return Err(refused("it is a box; use codebox box exec"));
    }
    if labels.is_some_and(|labels| labels.contains_key(labels::OWNER)) {
        return Err(refused("it is a container of another run of codebox"));
    }
    Ok(found)
}

/// Returns the facts about a running container.
async fn describe(engine: &Engine, id: &str, shared: &Shared) -> Result<RunningContainer, ContainerError> {
    let found = inspect(engine, id).await?;
    let names = found.mounts.iter().flatten().filter_map(|mount| mount.name.clone());
    let mut devices = BTreeMap::new();
    for name in names {
        let called = timeout_at(Instant::now() + CALL_TIMEOUT, engine.client.inspect_volume(&name)).await;
        let called = called.map_err(|late| ContainerError::Lost { doing: OPERATION, source: Box::new(late) })?;
        // A mount with a name need not be a volume.
        if let Some(device) = called.ok().and_then(|volume| volume.options.get("device").cloned()) {
            devices.insert(name, device);
        }
    }
    Ok(facts::of(engine, found, &shared.engine_sockets(), &devices))
}

/// Opens an instance in a running container, with the agent if it can run there.
pub(crate) async fn open(
    shared: &Shared,
    engine: Engine,
    spec: &InstanceSpec,
) -> Result<Box<dyn Instance>, ContainerError> {
    let Some(attachment) = &spec.attachment else {
        return Err(ContainerError::Input { subject: "the job".to_owned(), why: "it names no container".to_owned() });
    };
    let began = std::time::Instant::now();
    // The container may have been replaced since it was admitted.
    let found = describe(&engine, &attachment.container.id, shared).await?;
    if found.id != attachment.container.id || found.powers != attachment.container.powers {
        let subject = format!("container {}", attachment.container.name);
        return Err(ContainerError::Input { subject, why: "it has changed since the job was admitted".to_owned() });
    }
    match AgentDir::open(&engine, attachment, shared.agent()?.path()).await {
        Ok(agent) => {
            Ok(Box::new(AttachedInstance::new(engine, attachment, agent, shared.analyzer.clone(), began.elapsed())))
        }
        // An engine that does not answer in time would not start a program either.
        Err(error @ (ContainerError::Gone { .. } | ContainerError::Io { .. } | ContainerError::Lost { .. })) => {
            Err(error)
        }
        Err(error) => {
            let why = codebox_core::format_error_chain(&error);
            let instance = ExecInstance::open(engine, attachment, why, shared.analyzer.clone(), began).await?;
            Ok(Box::new(instance))
        }
    }
}

/// Returns how well each limit is enforced in a container that other programs share.
fn limits() -> BTreeMap<LimitKind, EnforcementLevel> {
    let level = |kind| match kind {
        LimitKind::Wall | LimitKind::Output => EnforcementLevel::Enforced,
        _ => EnforcementLevel::Unsupported,
    };
    LimitKind::ALL.into_iter().map(|kind| (kind, level(kind))).collect()
}

/// Returns the isolation of a job in such a container, as sandbox layers.
fn layers(attachment: &codebox_core::Attachment, agent: Result<(), &str>) -> Vec<SandboxLayer> {
    let container = &attachment.container;
    let layer = |name: &str, state, detail: String| SandboxLayer { name: name.to_owned(), state, detail };
    let mut layers = vec![layer(
        "container",
        LayerState::Partial,
        format!(
            "the settings of {}, which codebox has not made, with its network {}",
            attachment.origin, container.network
        ),
    )];
    let dirs = container.dirs.iter().map(|dir| format!("{} at {}, {}", dir.host, dir.guest, dir.access));
    let mounts: Vec<String> = dirs.chain(container.other_mounts.iter().cloned()).collect();
    if !mounts.is_empty() {
        layers.push(layer("mounts", LayerState::Partial, mounts.join("; ")));
    }
    layers.extend(
        container.powers.iter().map(|found| layer(found.power.as_str(), LayerState::Unavailable, found.detail.clone())),
    );
    layers.push(match agent {
        Ok(()) => layer("seccomp", LayerState::Held, "the agent's filter, and no new privileges".to_owned()),
        Err(why) => layer("seccomp", LayerState::Unavailable, format!("the engine starts the program itself: {why}")),
    });
    layers
}

impl ContainerHost for ContainerBackend {
    fn inspect<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<RunningContainer, BackendError>> {
        Box::pin(async move {
            let inspected = async {
                let engine = self.engine().await?;
                describe(engine, id, self.shared()).await
            };
            inspected.await.map_err(|error| self.convert_error(error))
        })
    }

    fn limits(&self) -> BTreeMap<LimitKind, EnforcementLevel> {
        limits()
    }
}
