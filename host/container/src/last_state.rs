//! What an engine says of a container whose line has ended.

use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::ContainerState;
use tokio::time::{Instant, sleep, timeout_at};

use crate::engine::PATIENCE;
use crate::error::ContainerError;

/// What was asked.
const DOING: &str = "tell how a container ended";

/// The time between two questions.
const PAUSE: Duration = Duration::from_millis(50);

/// How a container ended; nothing where it is there no more.
///
/// For a moment it may still be told as running, by Podman as `stopped`, which is no status of the interface's and lasts
/// until Podman has cleaned up after it, or with a status that stands for none, `no_status`: an agent whose host is there
/// does not end by itself, with 0.
pub(crate) async fn last_state(
    client: &Docker,
    id: &str,
    no_status: Option<i64>,
) -> Result<Option<ContainerState>, ContainerError> {
    let until = Instant::now() + PATIENCE;
    loop {
        let over = Instant::now() + PAUSE >= until;
        match timeout_at(until, client.inspect_container(id, None)).await {
            Ok(Ok(found)) => {
                let state = found.state.unwrap_or_default();
                let is_told = state.running != Some(true) && state.exit_code != no_status;
                if over || is_told {
                    return Ok(Some(state));
                }
            }
            Ok(Err(Error::JsonDataError { .. })) if !over => {}
            Ok(Err(error)) => match ContainerError::call(DOING)(error) {
                ContainerError::Gone { .. } => return Ok(None),
                error => return Err(error),
            },
            Err(late) => return Err(ContainerError::Lost { doing: DOING, source: Box::new(late) }),
        }
        sleep(PAUSE).await;
    }
}
