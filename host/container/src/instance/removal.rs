//! Removal of a container.

use std::time::Duration;

use bollard::Docker;
use bollard::query_parameters::{KillContainerOptionsBuilder, RemoveContainerOptionsBuilder};
use tokio::time::timeout;

use crate::engine::CALL_TIMEOUT;
use crate::error::ContainerError;
use crate::last_state::last_state;

/// A guard that removes a container when it is no longer needed, whatever becomes of the code that created it.
pub(crate) struct ContainerGuard {
    client: Docker,
    id: String,
    due: DropAction,
    /// Timeout of the engine call.
    time_limit: Duration,
}

/// Timeout of the engine call after the engine has failed to answer. A later sweep removes the container if this call
/// fails.
const TIMEOUT_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Responsibility of this process for the removal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DropAction {
    Remove,
    Keep,
}

impl ContainerGuard {
    /// Creates a guard for a container that this process has created.
    pub(crate) fn of(client: Docker, id: String) -> Self {
        Self { client, id, due: DropAction::Remove, time_limit: 2 * CALL_TIMEOUT }
    }

    /// Creates a guard for a container that another process owns and removes.
    pub(crate) fn leased(client: Docker, id: String) -> Self {
        Self { client, id, due: DropAction::Keep, time_limit: 2 * CALL_TIMEOUT }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns true if another process owns the container.
    pub(crate) fn is_leased(&self) -> bool {
        self.due == DropAction::Keep
    }

    /// Kills the processes in the container. A container that has already ended is not an error.
    ///
    /// # Errors
    /// Returns an error if the engine does not confirm that the container is dead.
    pub(crate) async fn kill(&mut self) -> Result<(), ContainerError> {
        const OPERATION: &str = "kill a container";
        let options = KillContainerOptionsBuilder::default().signal("SIGKILL").build();
        match timeout(CALL_TIMEOUT, self.client.kill_container(&self.id, Some(options))).await {
            Ok(done) => match done.map_err(ContainerError::call(OPERATION)) {
                Ok(()) | Err(ContainerError::Gone { .. }) => Ok(()),
                // A container that has ended cannot be killed. If the container still runs after a refusal, its end is
                // unknown.
                Err(error @ ContainerError::Refused { .. }) => match last_state(&self.client, &self.id, None).await? {
                    Some(state) if state.running == Some(true) => Err(error),
                    _ => Ok(()),
                },
                Err(error) => Err(error),
            },
            Err(late) => {
                self.time_limit = TIMEOUT_AFTER_FAILURE;
                Err(ContainerError::Lost { doing: OPERATION, source: Box::new(late) })
            }
        }
    }

    /// Removes the container now.
    pub(crate) async fn now(mut self) -> Result<(), ContainerError> {
        match std::mem::replace(&mut self.due, DropAction::Keep) {
            DropAction::Remove => removed(&self.client, &self.id, self.time_limit).await,
            DropAction::Keep => Ok(()),
        }
    }
}

impl Drop for ContainerGuard {
    fn drop(&mut self) {
        if self.due == DropAction::Keep {
            return;
        }
        let (client, id, time_limit) = (self.client.clone(), std::mem::take(&mut self.id), self.time_limit);
        // The connection is closed by now, so the agent ends all processes. Without a runtime the next start removes
        // the container.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = removed(&client, &id, time_limit).await;
            });
        }
    }
}

/// Removes a container and its anonymous volumes. A container that no longer exists is not an error.
///
/// An engine refuses the call while it removes a container that has just ended by itself, so a refused call is
/// repeated.
pub(crate) async fn remove(client: &Docker, id: &str) -> Result<(), ContainerError> {
    removed(client, id, 2 * CALL_TIMEOUT).await
}

async fn removed(client: &Docker, id: &str, time_limit: Duration) -> Result<(), ContainerError> {
    let mut tries = 0;
    loop {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        let removed = match timeout(time_limit, client.remove_container(id, Some(options))).await {
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
