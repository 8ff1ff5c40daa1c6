//! Containers that wait for a job, and containers that another process lends.

use std::time::Instant;

use codebox_files::InstanceScratch;
use futures_util::FutureExt as _;

use super::ContainerInstance;
use super::removal::Removal;
use crate::doors::Doors;
use crate::engine::Engine;
use crate::error::ContainerError;
use crate::images::ImageFacts;
use crate::mounts::Granted;
use crate::talk::Talk;
use crate::warm::Lease;

impl ContainerInstance {
    /// Returns true if the container still waits for a job. An agent that waits sends no events.
    pub(crate) fn waits(&mut self) -> bool {
        self.talk.word().now_or_never().is_none()
    }

    /// Returns true if another process owns the container.
    pub(crate) fn is_lent(&self) -> bool {
        self.container.is_elsewhere()
    }

    /// Returns the connection to the agent.
    pub(crate) fn talk(&mut self) -> &mut Talk {
        &mut self.talk
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
    pub(crate) fn lent(
        engine: Engine,
        image: ImageFacts,
        (lease, talk): (Lease, Talk),
        (doors, authorities): (Doors, Option<&'static str>),
        asked: Instant,
    ) -> Result<Self, ContainerError> {
        let Lease { container, user, scratch: place, granted } = lease;
        let scratch = InstanceScratch::lent(&place).map_err(ContainerError::io("open", &place))?;
        Ok(Self {
            backend: engine.facts.flavour.id(),
            container: Removal::elsewhere(engine.client.clone(), container),
            granted: Granted::lent(granted.into_iter().map(Into::into).collect()),
            startup: asked.elapsed(),
            packages: Vec::new(),
            beside: None,
            afterwards: None,
            analyzer: None,
            engine,
            talk,
            image,
            user,
            scratch,
            doors,
            authorities,
        })
    }
}
