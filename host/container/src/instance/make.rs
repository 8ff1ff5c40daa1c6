//! Creation and start of a container.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{AttachContainerOptionsBuilder, CreateContainerOptionsBuilder};
use codebox_agent::{Event, PROTOCOL_VERSION};
use codebox_core::{Access, Grants, InstanceSpec, PYTHON_PACKAGES};
use tokio::time::timeout;

use super::places::{hook_bind, private_binds};
use super::removal::ContainerGuard;
use super::{ContainerInstance, files};
use crate::agent_connection::AgentConnection;
use crate::boxes::BoxLayout;
use crate::caller::{FileOwnership, JobUser};
use crate::engine::Engine;
use crate::engine_machine::place_binds;
use crate::error::ContainerError;
use crate::harden::{self, ContainerInputs, EngineExec, max_lifetime, own_binds};
use crate::images::ImageFacts;
use crate::labels::{BOX, container_name};
use crate::mounts::{Bind, Granted};
use crate::port_forwards::PortForwards;
use crate::shared::Shared;

impl ContainerInstance {
    /// Creates and starts a container exactly as `spec` describes, and waits for its agent.
    pub(crate) async fn open(
        shared: &Arc<Shared>,
        engine: Engine,
        image: ImageFacts,
        spec: &InstanceSpec,
    ) -> Result<Self, ContainerError> {
        Self::open_for(shared, engine, image, spec, None).await
    }

    /// Creates and starts a container, for a box if `layout` is given.
    pub(crate) async fn open_for(
        shared: &Arc<Shared>,
        engine: Engine,
        image: ImageFacts,
        spec: &InstanceSpec,
        layout: Option<&BoxLayout<'_>>,
    ) -> Result<Self, ContainerError> {
        let began = Instant::now();
        // The environment and the tools come with each job.
        let Grants { dirs, project: _, net, env: _, secrets: _, tools: _ } = &spec.grants;
        let port_forwards = PortForwards::of(net);
        let agent = shared.agent()?;
        let mut scratch = shared.scratch.instance().map_err(files)?;
        let user = JobUser::pick(&engine.facts, engine.caller());
        let mounts_dir = shared.mounts_dir();
        let own_name = container_name(&shared.owner.name);
        let name = layout.and_then(BoxLayout::name).unwrap_or(&own_name).to_owned();
        // Mounts have the owner in their names too, so that a sweep can find them.
        let prefix = own_name.strip_prefix("codebox-").unwrap_or(&own_name);
        let granted = Granted::new(dirs, &user, &mounts_dir, prefix, agent)?;
        let mut binds = own_binds(agent.path(), shared.ca_bundle.as_deref());
        binds.extend(private_binds(&mut scratch, &granted, &user)?);
        binds.push(hook_bind(&mut scratch)?);
        let mut engine_exec = EngineExec::default();
        if let Some(layout) = layout {
            binds.extend(layout.binds(&mut scratch)?);
            let proxies = port_forwards.environment(layout.job(), shared.ca_bundle.as_ref().map(|_| harden::CA_BUNDLE));
            engine_exec = layout.engine_exec(&image, proxies);
        }
        binds.extend(granted.binds.iter().cloned());
        // Every user can read the layers, so they need no ID-mapped mount.
        let layers = spec.layers.iter().filter(|layer| !granted.covers(&layer.guest));
        binds.extend(layers.map(|layer| Bind {
            host: layer.host.clone(),
            guest: layer.guest.as_str().to_owned(),
            access: Access::ReadOnly,
        }));
        let constant: Vec<PathBuf> = spec.layers.iter().map(|layer| layer.host.clone()).collect();
        let (binds, placed) = match &engine.machine {
            None => (binds, None),
            Some(place) => {
                let private = scratch.path("run");
                let private = private.parent().unwrap_or(&private);
                let (binds, guard) = place_binds(&*place.machine, binds, private, &constant).await?;
                (binds, Some(guard))
            }
        };
        // Node finds npm packages by itself, and other layers contain no packages to import.
        let packages = spec.layers.iter().map(|layer| &layer.guest).filter(|guest| guest.as_str() == PYTHON_PACKAGES);
        let packages = packages.cloned().collect();
        // The time limit is that of each cell.
        let lifetime = if spec.session.is_some() || layout.is_some() { None } else { max_lifetime(&spec.limits) };
        let mut labels = shared.owner.labels(&name, shared.secret()?, lifetime);
        labels.extend(layout.map(|_| (BOX.to_owned(), name.clone())));
        let inputs = ContainerInputs {
            image: &image,
            user: &user,
            limits: &spec.limits,
            cpus: spec.cpus,
            binds: &binds,
            port_forwards: &port_forwards,
            labels,
            group: engine.machine.as_ref().map(|place| place.group.as_str()),
            engine_exec,
        };
        let body = harden::container(inputs, &engine.facts)?;
        let (client, limit) = (engine.client.clone(), engine.create_timeout());
        let lock = match user.owners {
            FileOwnership::KeepId => shared.facts_cache.lock_id_ranges(&engine.facts.place).await,
            FileOwnership::TheCallers | FileOwnership::Mapped => None,
        };
        let made = create_container(client.clone(), limit, name, body, lock).await;
        let container = made.map_err(|error| error.map_missing_image(image.name.as_str()))?;
        let agent_connection = match attach_and_start(&client, limit, container.id(), &image).await {
            Ok(agent_connection) => agent_connection,
            Err(error) => {
                // Removed here and not on drop, because the process may exit after this error.
                let _ = container.now().await;
                return Err(error);
            }
        };
        let backend = engine.id();
        Ok(Self {
            engine,
            backend,
            container,
            agent_connection,
            image,
            user,
            granted,
            packages,
            scratch,
            port_forwards,
            ca_bundle: shared.ca_bundle.as_ref().map(|_| harden::CA_BUNDLE),
            startup: began.elapsed(),
            background: None,
            on_close: None,
            analyzer: None,
            placed,
            session: spec.session.as_ref().map(|_| Box::default()),
        })
    }
}

/// Creates a container without starting it.
///
/// The engine creates the container even if the caller does not wait for the answer. A separate task therefore waits,
/// and if this future is dropped, the container is removed.
#[tracing::instrument(level = "debug", name = "create_container", skip_all)]
async fn create_container(
    client: Docker,
    limit: Duration,
    name: String,
    body: ContainerCreateBody,
    lock: Option<File>,
) -> Result<ContainerGuard, ContainerError> {
    let making = async move {
        let options = CreateContainerOptionsBuilder::default().name(&name).build();
        let made = call("create a container", limit, client.create_container(Some(options), body)).await;
        drop(lock);
        let made = made?;
        Ok(ContainerGuard::of(client, made.id))
    };
    match tokio::spawn(making).await {
        Ok(made) => made,
        Err(ended) => Err(ContainerError::Lost { doing: "create a container", source: Box::new(ended) }),
    }
}

/// Runs an engine call with this timeout.
async fn call<T>(
    doing: &'static str,
    limit: Duration,
    future: impl Future<Output = Result<T, bollard::errors::Error>>,
) -> Result<T, ContainerError> {
    match timeout(limit, future).await {
        Ok(done) => done.map_err(ContainerError::call(doing)),
        Err(late) => Err(ContainerError::Lost { doing, source: Box::new(late) }),
    }
}

/// Attaches to a container, starts it and waits for its agent.
#[tracing::instrument(level = "debug", name = "start_container", skip_all)]
async fn attach_and_start(
    client: &Docker,
    limit: Duration,
    id: &str,
    image: &ImageFacts,
) -> Result<AgentConnection, ContainerError> {
    let streams = AttachContainerOptionsBuilder::default().stream(true).stdin(true).stdout(true).stderr(true);
    let unstartable = |error| match error {
        ContainerError::Refused { refusal, .. } => {
            ContainerError::Unstartable { image: image.name.to_string(), refusal }
        }
        other => other,
    };
    // Podman prepares a container when a client attaches to it.
    let attached =
        call("forward the container's streams", limit, client.attach_container(id, Some(streams.build()))).await;
    let mut agent_connection = AgentConnection::from_attached(attached.map_err(unstartable)?);
    call("start a container", limit, client.start_container(id, None)).await.map_err(unstartable)?;
    match timeout(limit, agent_connection.event()).await {
        Ok(Ok(Some(Event::Ready(PROTOCOL_VERSION)))) => Ok(agent_connection),
        Ok(Ok(_)) => Err(agent_connection.early_end_error("start the agent", "did not start")),
        Ok(Err(error)) => Err(error),
        Err(late) => Err(ContainerError::Lost { doing: "start the agent", source: Box::new(late) }),
    }
}
