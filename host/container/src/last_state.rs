//! The last state of a container whose connection has ended, as the engine reports it.

use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::ContainerState;
use tokio::time::{Instant, sleep, timeout_at};

use crate::engine::CALL_TIMEOUT;
use crate::error::ContainerError;

/// The operation in error messages.
const OPERATION: &str = "read the exit state of a container";

/// Pause between two queries.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Returns the last state of a container, or `None` if the container no longer exists.
///
/// Repeats the query while the state is not final, for at most `CALL_TIMEOUT`. For a moment an engine may still report the
/// container as running or with the exit code `no_status`, which stands for an unknown one: an agent does not exit with
/// 0 while its host is connected. Podman may report `stopped`, which the API does not define, until Podman has cleaned
/// up after the container.
pub(crate) async fn last_state(
    client: &Docker,
    id: &str,
    no_status: Option<i64>,
) -> Result<Option<ContainerState>, ContainerError> {
    let until = Instant::now() + CALL_TIMEOUT;
    loop {
        let over = Instant::now() + POLL_INTERVAL >= until;
        match timeout_at(until, client.inspect_container(id, None)).await {
            Ok(Ok(found)) => {
                let state = found.state.unwrap_or_default();
                let is_final = state.running != Some(true) && state.exit_code != no_status;
                if over || is_final {
                    return Ok(Some(state));
                }
            }
            Ok(Err(Error::JsonDataError { .. })) if !over => {}
            Ok(Err(error)) => match ContainerError::call(OPERATION)(error) {
                ContainerError::Gone { .. } => return Ok(None),
                error => return Err(error),
            },
            Err(late) => return Err(ContainerError::Lost { doing: OPERATION, source: Box::new(late) }),
        }
        sleep(POLL_INTERVAL).await;
    }
}
