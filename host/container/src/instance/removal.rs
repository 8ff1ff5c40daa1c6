//! The end of a container.

use std::time::Duration;

use bollard::Docker;
use bollard::query_parameters::{KillContainerOptionsBuilder, RemoveContainerOptionsBuilder};
use tokio::time::timeout;

use crate::engine::PATIENCE;
use crate::error::ContainerError;
use crate::last_state::last_state;

/// Removes a container when it is not needed any more, whatever became of who made it.
pub(crate) struct Removal {
    client: Docker,
    id: String,
    due: Due,
    /// How long the engine may take.
    patience: Duration,
}

/// How long an engine may take that has just not answered. What it does not remove is removed later.
const IMPATIENCE: Duration = Duration::from_secs(1);

/// Whether this process still has to remove it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    Yes,
    No,
}

impl Removal {
    /// Of the container that was made.
    pub(crate) fn of(client: Docker, id: String) -> Self {
        Self { client, id, due: Due::Yes, patience: 2 * PATIENCE }
    }

    /// Of a container that another process keeps, which removes it.
    pub(crate) fn elsewhere(client: Docker, id: String) -> Self {
        Self { client, id, due: Due::No, patience: 2 * PATIENCE }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Whether another process keeps the container.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.due == Due::No
    }

    /// Kills what is in it; one that has ended is no error.
    ///
    /// # Errors
    /// When the engine does not say that it is dead.
    pub(crate) async fn killed(&mut self) -> Result<(), ContainerError> {
        const DOING: &str = "end a container";
        let options = KillContainerOptionsBuilder::default().signal("SIGKILL").build();
        match timeout(PATIENCE, self.client.kill_container(&self.id, Some(options))).await {
            Ok(done) => match done.map_err(ContainerError::call(DOING)) {
                Ok(()) | Err(ContainerError::Gone { .. }) => Ok(()),
                // One that does not run cannot be killed; one that runs, and is not killed, is not known to end.
                Err(error @ ContainerError::Refused { .. }) => match last_state(&self.client, &self.id, None).await? {
                    Some(state) if state.running == Some(true) => Err(error),
                    _ => Ok(()),
                },
                Err(error) => Err(error),
            },
            Err(late) => {
                self.patience = IMPATIENCE;
                Err(ContainerError::Lost { doing: DOING, source: Box::new(late) })
            }
        }
    }

    /// Removes it now.
    pub(crate) async fn now(mut self) -> Result<(), ContainerError> {
        match std::mem::replace(&mut self.due, Due::No) {
            Due::Yes => removed(&self.client, &self.id, self.patience).await,
            Due::No => Ok(()),
        }
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        if self.due == Due::No {
            return;
        }
        let (client, id, patience) = (self.client.clone(), std::mem::take(&mut self.id), self.patience);
        // Its line is cut by now, so the agent ends what runs; without a runtime the next start removes the rest.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = removed(&client, &id, patience).await;
            });
        }
    }
}

/// Removes a container and the volumes that it alone has; one that is gone already is no error.
///
/// An engine that is at it by itself, because the container has just ended, says so; it is asked again.
pub(crate) async fn remove(client: &Docker, id: &str) -> Result<(), ContainerError> {
    removed(client, id, 2 * PATIENCE).await
}

async fn removed(client: &Docker, id: &str, patience: Duration) -> Result<(), ContainerError> {
    let mut tries = 0;
    loop {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        let removed = match timeout(patience, client.remove_container(id, Some(options))).await {
            Ok(done) => done.map_err(ContainerError::call("remove a container")),
            Err(late) => Err(ContainerError::Lost { doing: "remove a container", source: Box::new(late) }),
        };
        match removed {
            Err(ContainerError::Gone { .. }) => return Ok(()),
            Err(ContainerError::Refused { .. }) if tries < 10 => {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            other => return other,
        }
    }
}
