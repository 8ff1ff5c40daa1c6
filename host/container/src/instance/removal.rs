//! The end of a container.

use std::time::Duration;

use bollard::Docker;
use bollard::query_parameters::RemoveContainerOptionsBuilder;
use tokio::time::timeout;

use crate::engine::PATIENCE;
use crate::error::ContainerError;

/// Removes a container when it is not needed any more, whatever became of who made it.
pub(crate) struct Removal {
    client: Docker,
    id: String,
    due: Due,
}

/// Whether this process still has to remove it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    Yes,
    No,
}

impl Removal {
    /// Of the container that was made.
    pub(crate) const fn of(client: Docker, id: String) -> Self {
        Self { client, id, due: Due::Yes }
    }

    /// Of a container that another process keeps, which removes it.
    pub(crate) const fn elsewhere(client: Docker, id: String) -> Self {
        Self { client, id, due: Due::No }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Whether another process keeps the container.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.due == Due::No
    }

    /// Removes it now.
    pub(crate) async fn now(mut self) -> Result<(), ContainerError> {
        match std::mem::replace(&mut self.due, Due::No) {
            Due::Yes => remove(&self.client, &self.id).await,
            Due::No => Ok(()),
        }
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        if self.due == Due::No {
            return;
        }
        let (client, id) = (self.client.clone(), std::mem::take(&mut self.id));
        // Its line is cut by now, so the agent ends what runs; without a runtime the next start removes the rest.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = remove(&client, &id).await;
            });
        }
    }
}

/// Removes a container and the volumes that it alone has; one that is gone already is no error.
///
/// An engine that is at it by itself, because the container has just ended, says so; it is asked again.
pub(crate) async fn remove(client: &Docker, id: &str) -> Result<(), ContainerError> {
    let mut tries = 0;
    loop {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        let removed = match timeout(2 * PATIENCE, client.remove_container(id, Some(options))).await {
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
