//! Containers that wait for a job, and are lent.

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
    /// Whether it still waits: an agent that waits says nothing.
    pub(crate) fn waits(&mut self) -> bool {
        self.talk.word().now_or_never().is_none()
    }

    /// Whether another process keeps it.
    pub(crate) fn is_lent(&self) -> bool {
        self.container.is_elsewhere()
    }

    /// The line to its agent.
    pub(crate) fn talk(&mut self) -> &mut Talk {
        &mut self.talk
    }

    /// What another process has to know of it.
    pub(crate) fn lease(&self) -> Lease {
        Lease {
            container: self.container.id().to_owned(),
            user: self.user,
            scratch: self.scratch.place().to_owned(),
            granted: self.granted.binds.iter().map(Into::into).collect(),
        }
    }

    /// A container that another process keeps, and removes when the line to it ends.
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
