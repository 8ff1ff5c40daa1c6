//! Creation and start of a container.

use std::sync::Arc;
use std::time::Instant;

use bollard::Docker;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{AttachContainerOptionsBuilder, CreateContainerOptionsBuilder};
use codebox_agent::Word;
use codebox_core::{Access, Grants, InstanceSpec, PYTHON_PACKAGES};
use tokio::time::timeout;

use super::places::{hook, private};
use super::removal::Removal;
use super::{ContainerInstance, files};
use crate::backend::Shared;
use crate::caller::JobUser;
use crate::doors::Doors;
use crate::engine::{Engine, LONG};
use crate::error::ContainerError;
use crate::harden::{self, Wanted, life, own_binds};
use crate::images::ImageFacts;
use crate::labels::container_name;
use crate::mounts::{Bind, Granted};
use crate::talk::Talk;

impl ContainerInstance {
    /// Creates and starts a container exactly as `spec` describes, and waits for its agent.
    pub(crate) async fn open(
        shared: &Arc<Shared>,
        engine: Engine,
        image: ImageFacts,
        spec: &InstanceSpec,
    ) -> Result<Self, ContainerError> {
        let began = Instant::now();
        // The environment comes with each job. Tools cannot be granted yet, and the front end has already refused them.
        let Grants { dirs, net, env: _, tools: _ } = &spec.grants;
        let doors = Doors::of(net);
        let agent = shared.agent()?;
        let mut scratch = shared.scratch.instance().map_err(files)?;
        let user = JobUser::pick(&engine.facts, crate::caller::caller());
        let points = shared.points();
        let name = container_name(&shared.owner.name);
        // Mounts have the owner in their names too, so that a sweep can find them.
        let prefix = name.strip_prefix("codebox-").unwrap_or(&name);
        let granted = Granted::new(dirs, &user, (&points, prefix), agent)?;
        let mut binds = own_binds(agent.path(), shared.authorities.as_deref());
        binds.extend(private(&mut scratch, &granted, &user)?);
        binds.push(hook(&mut scratch)?);
        binds.extend(granted.binds.iter().cloned());
        // Every user can read the layers, so they need no ID-mapped mount.
        let layers = spec.layers.iter().filter(|layer| !granted.covers(&layer.guest));
        binds.extend(layers.map(|layer| Bind {
            host: layer.host.clone(),
            guest: layer.guest.as_str().to_owned(),
            access: Access::ReadOnly,
        }));
        // Node finds npm packages by itself, and other layers contain no packages to import.
        let packages = spec.layers.iter().map(|layer| &layer.guest).filter(|guest| guest.as_str() == PYTHON_PACKAGES);
        let packages = packages.cloned().collect();
        let labels = shared.owner.labels(&name, shared.secret()?, life(&spec.limits));
        let wanted = Wanted { image: &image, user: &user, limits: &spec.limits, binds: &binds, doors: &doors, labels };
        let body = harden::container(wanted, &engine.facts)?;
        let client = engine.client.clone();
        let made = made(client.clone(), name, body).await;
        let container = made.map_err(|error| error.needing(image.name.as_str()))?;
        let talk = match begin(&client, container.id(), &image).await {
            Ok(talk) => talk,
            Err(error) => {
                // Removed here and not on drop, because the process may exit after this error.
                let _ = container.now().await;
                return Err(error);
            }
        };
        let backend = engine.facts.flavour.id();
        Ok(Self {
            engine,
            backend,
            container,
            talk,
            image,
            user,
            granted,
            packages,
            scratch,
            doors,
            authorities: shared.authorities.as_ref().map(|_| harden::AUTHORITIES),
            startup: began.elapsed(),
            beside: None,
            afterwards: None,
            analyzer: None,
        })
    }
}

/// Creates a container without starting it.
///
/// The engine creates the container even if the caller does not wait for the answer. A separate task therefore waits,
/// and if this future is dropped, the container is removed.
async fn made(client: Docker, name: String, body: ContainerCreateBody) -> Result<Removal, ContainerError> {
    let making = async move {
        let options = CreateContainerOptionsBuilder::default().name(&name).build();
        let made = call("create a container", client.create_container(Some(options), body)).await?;
        Ok(Removal::of(client, made.id))
    };
    match tokio::spawn(making).await {
        Ok(made) => made,
        Err(ended) => Err(ContainerError::Lost { doing: "create a container", source: Box::new(ended) }),
    }
}

/// Runs an engine call with the timeout for creating and starting.
async fn call<T>(
    doing: &'static str,
    future: impl Future<Output = Result<T, bollard::errors::Error>>,
) -> Result<T, ContainerError> {
    match timeout(LONG, future).await {
        Ok(done) => done.map_err(ContainerError::call(doing)),
        Err(late) => Err(ContainerError::Lost { doing, source: Box::new(late) }),
    }
}

/// Attaches to a container, starts it and waits for its agent.
async fn begin(client: &Docker, id: &str, image: &ImageFacts) -> Result<Talk, ContainerError> {
    let streams = AttachContainerOptionsBuilder::default().stream(true).stdin(true).stdout(true).stderr(true);
    let unstartable = |error| match error {
        ContainerError::Refused { said, .. } => ContainerError::Unstartable { image: image.name.to_string(), said },
        other => other,
    };
    // Podman prepares a container when a client attaches to it.
    let attached = call("forward the container's streams", client.attach_container(id, Some(streams.build()))).await;
    let mut talk = Talk::over(attached.map_err(unstartable)?);
    call("start a container", client.start_container(id, None)).await.map_err(unstartable)?;
    match timeout(LONG, talk.word()).await {
        Ok(Ok(Some(Word::Ready))) => Ok(talk),
        Ok(Ok(_)) => Err(talk.broken("start the agent", "did not start")),
        Ok(Err(error)) => Err(error),
        Err(late) => Err(ContainerError::Lost { doing: "start the agent", source: Box::new(late) }),
    }
}
