//! Transfer of one file from its source to the disk.

use std::io::Read;
use std::path::Path;

use uv_client::RetryState;

use super::client::Registry;
use super::landing::Landing;
use super::package;
use super::refusal::Refusal;
use super::search::Candidate;
use crate::error::{Cause, FetchError};
use crate::pin::Pin;
use crate::reach::{Astray, refused_by};
use crate::settings::IndexSettings;
use codebox_core::Progress;

/// Failure of one attempt.
enum Failure {
    /// The connection broke during the transfer. Another attempt may succeed.
    Broken(Cause),
    /// Another attempt would fail as well. The client has already retried the failures that it retries.
    Final(FetchError),
}

/// Transfers `candidate` to `into` if it is the pinned file.
pub(crate) async fn transfer(
    candidate: &Candidate,
    pin: &Pin,
    settings: &IndexSettings,
    registry: &Registry,
    into: &Path,
    progress: &dyn Progress,
) -> Result<(), FetchError> {
    let refused = |refusal: Refusal| refusal.at(candidate.index.clone(), pin, settings);
    let url = candidate.file.url.to_url();
    let url = url.map_err(|error| refused(Refusal::Answer(error.into())))?;
    progress.started(&candidate.file_name(), pin.size.or(candidate.file.size));
    if url.scheme() == "file" {
        let path = url.to_file_path();
        let path = path.map_err(|()| refused(Refusal::Answer(format!("{url} is not a file path").into())))?;
        let landing = Landing::new(candidate, pin, into, progress)?;
        return copy(&path, landing).map_err(|error| match error {
            Failure::Broken(cause) => refused(Refusal::Answer(cause)),
            Failure::Final(error) => error,
        });
    }
    if settings.connectivity.is_offline() {
        return Err(refused(Refusal::Offline));
    }
    let policy = registry.client.cached_client().uncached().retry_policy();
    let mut retries = RetryState::start(policy, url.clone());
    loop {
        let landing = Landing::new(candidate, pin, into, progress)?;
        // The files of an index are compressed already; the server must not encode them again.
        let request = registry.client.uncached_client(&url).get(url.as_str());
        let request = request.header("accept-encoding", "identity");
        let attempt = async {
            let mut response = request.send().await.map_err(|error| {
                let refusal = match refused_by::<Astray>(&error) {
                    Some(astray) => Refusal::Answer(astray.into()),
                    None => Refusal::Unreachable(error.into()),
                };
                Failure::Final(refused(refusal))
            })?;
            match response.status().as_u16() {
                200 => {}
                401 | 403 => return Err(Failure::Final(refused(Refusal::Denied))),
                status => {
                    let cause = format!("HTTP status {status} for {}", package(pin)).into();
                    return Err(Failure::Final(refused(Refusal::Answer(cause))));
                }
            }
            let mut landing = landing;
            let broken = |error| Failure::Broken(Cause::from(error));
            while let Some(bytes) = response.chunk().await.map_err(broken)? {
                landing.push(&bytes).map_err(Failure::Final)?;
            }
            landing.finish().map_err(Failure::Final)
        };
        match attempt.await {
            Ok(()) => return Ok(()),
            Err(Failure::Final(error)) => return Err(error),
            Err(Failure::Broken(cause)) => match retries.should_retry(&*cause, 0) {
                Some(pause) => retries.sleep_backoff(pause).await,
                None => return Err(refused(Refusal::Unreachable(cause))),
            },
        }
        progress.started(&candidate.file_name(), pin.size.or(candidate.file.size));
    }
}

/// Copies a file from a folder on this machine.
fn copy(path: &Path, mut landing: Landing<'_>) -> Result<(), Failure> {
    let broken = |error: std::io::Error| Failure::Broken(error.into());
    let mut file = crate::disk::open(path).map_err(broken)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = file.read(&mut buffer).map_err(broken)?;
        if count == 0 {
            return landing.finish().map_err(Failure::Final);
        }
        landing.push(&buffer[..count]).map_err(Failure::Final)?;
    }
}
