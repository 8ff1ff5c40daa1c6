//! Transfer of one file from its source to the disk.

use std::io::Read;
use std::path::Path;

use uv_client::RetryState;

use super::client::Registry;
use super::package;
use super::partial_download::PartialDownload;
use super::search::Candidate;
use super::source_failure::SourceFailure;
use crate::address_policy::{ForbiddenAddress, find_middleware_error};
use crate::error::{Cause, FetchError};
use crate::pin::Pin;
use crate::settings::IndexSettings;
use codebox_core::Progress;

/// Failure of one attempt.
enum AttemptError {
    /// The connection broke during the transfer. Another attempt may succeed.
    Retryable(Cause),
    /// Another attempt would fail as well. The client has already retried the failures that it retries.
    Permanent(FetchError),
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
    let fetch_error =
        |source_failure: SourceFailure| source_failure.into_fetch_error(candidate.index.clone(), pin, settings);
    let url = candidate.file.url.to_url();
    let url = url.map_err(|error| fetch_error(SourceFailure::InvalidResponse(error.into())))?;
    let (step, size) = (format!("downloading {}", candidate.file_name()), pin.size.or(candidate.file.size));
    progress.started(&step, size);
    if url.scheme() == "file" {
        let path = url.to_file_path();
        let path =
            path.map_err(|()| fetch_error(SourceFailure::InvalidResponse(format!("{url} is not a file path").into())))?;
        let partial_download = PartialDownload::new(candidate, pin, into, progress)?;
        return copy(&path, partial_download).map_err(|error| match error {
            AttemptError::Retryable(cause) => fetch_error(SourceFailure::InvalidResponse(cause)),
            AttemptError::Permanent(error) => error,
        });
    }
    if settings.connectivity.is_offline() {
        return Err(fetch_error(SourceFailure::Offline));
    }
    let policy = registry.client.cached_client().uncached().retry_policy();
    let mut retries = RetryState::start(policy, url.clone());
    loop {
        let partial_download = PartialDownload::new(candidate, pin, into, progress)?;
        // The files of an index are compressed already; the server must not encode them again.
        let request = registry.client.uncached_client(&url).get(url.as_str());
        let request = request.header("accept-encoding", "identity");
        let attempt = async {
            let mut response = request.send().await.map_err(|error| {
                let source_failure = match find_middleware_error::<ForbiddenAddress>(&error) {
                    Some(forbidden_address) => SourceFailure::InvalidResponse(forbidden_address.into()),
                    None => SourceFailure::Unreachable(error.into()),
                };
                AttemptError::Permanent(fetch_error(source_failure))
            })?;
            match response.status().as_u16() {
                200 => {}
                401 | 403 => return Err(AttemptError::Permanent(fetch_error(SourceFailure::Denied))),
                status => {
                    let cause = format!("HTTP status {status} for {}", package(pin)).into();
                    return Err(AttemptError::Permanent(fetch_error(SourceFailure::InvalidResponse(cause))));
                }
            }
            let mut partial_download = partial_download;
            let retryable = |error| AttemptError::Retryable(Cause::from(error));
            while let Some(bytes) = response.chunk().await.map_err(retryable)? {
                partial_download.push(&bytes).map_err(AttemptError::Permanent)?;
            }
            partial_download.finish().map_err(AttemptError::Permanent)
        };
        match attempt.await {
            Ok(()) => return Ok(()),
            Err(AttemptError::Permanent(error)) => return Err(error),
            Err(AttemptError::Retryable(cause)) => match retries.should_retry(&*cause, 0) {
                Some(pause) => retries.sleep_backoff(pause).await,
                None => return Err(fetch_error(SourceFailure::Unreachable(cause))),
            },
        }
        progress.started(&step, size);
    }
}

/// Copies a file from a folder on this machine.
fn copy(path: &Path, mut partial_download: PartialDownload<'_>) -> Result<(), AttemptError> {
    let retryable = |error: std::io::Error| AttemptError::Retryable(error.into());
    let mut file = crate::disk::open(path).map_err(retryable)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = file.read(&mut buffer).map_err(retryable)?;
        if count == 0 {
            return partial_download.finish().map_err(AttemptError::Permanent);
        }
        partial_download.push(&buffer[..count]).map_err(AttemptError::Permanent)?;
    }
}
