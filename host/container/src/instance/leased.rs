//! Containers that wait for a job, and containers that another process lends.

use std::time::Instant;

use codebox_files::InstanceScratch;
use futures_util::FutureExt as _;

use super::ContainerInstance;
use super::removal::ContainerGuard;
use crate::agent_connection::AgentConnection;
use crate::engine::Engine;
use crate::error::ContainerError;
use crate::images::ImageFacts;
use crate::lease::Lease;
use crate::mounts::Granted;
use crate::port_forwards::PortForwards;

impl ContainerInstance {
    /// Returns true if the container still waits for a job. An agent that waits sends no events.
    pub(crate) fn is_waiting(&mut self) -> bool {
        self.agent_connection.event().now_or_never().is_none()
    }

    /// Returns true if another process owns the container.
    pub(crate) fn is_leased(&self) -> bool {
        self.container.is_leased()
    }

    /// Returns the connection to the agent.
    pub(crate) fn agent_connection(&mut self) -> &mut AgentConnection {
        &mut self.agent_connection
    }

    /// Returns the description of the container for another process.
    pub(crate) fn lease(&self) -> Lease {
        Lease {
            container: self.container.id().to_owned(),
            user: self.user,
            scratch: self.scratch.place().to_owned(),
            granted: self.granted.binds.iter().map(Into::into).collect(),
        }
    }

    /// Creates an instance of a container that another process owns, and removes when the connection to the agent ends.
    pub(crate) fn from_lease(
        engine: Engine,
        image: ImageFacts,
        lease: Lease,
        agent_connection: AgentConnection,
        port_forwards: PortForwards,
        ca_bundle: Option<&'static str>,
        requested_at: Instant,
    ) -> Result<Self, ContainerError> {
        let Lease { container, user, scratch: place, granted } = lease;
        let scratch = InstanceScratch::open_leased(&place).map_err(ContainerError::io("open", &place))?;
        Ok(Self {
            backend: engine.facts.flavour.id(),
            container: ContainerGuard::leased(engine.client.clone(), container),
            granted: Granted::from_lease(granted.into_iter().map(Into::into).collect()),
            startup: requested_at.elapsed(),
            packages: Vec::new(),
            background: None,
            on_close: None,
            analyzer: None,
            placed: None,
            session: None,
            engine,
            agent_connection,
            image,
            user,
            scratch,
            port_forwards,
            ca_bundle,
        })
    }
}
