//! Download of a pinned file to the disk.

mod client;
mod partial_download;
mod ranged;
mod response_limit;
mod search;
mod source_failure;
mod transfer;

use std::path::Path;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;

use crate::error::FetchError;
use crate::pin::{Pin, Sha256};
use crate::settings::IndexSettings;
pub(crate) use client::{Registry, build_plain_client as plain_client, registry_with_cache};
use codebox_core::Progress;
pub(crate) use partial_download::MAX_WHEEL_SIZE;
pub(crate) use ranged::open_ranged;
pub(crate) use response_limit::MetadataTooComplex;
pub(crate) use search::{Candidate, FileKind};
pub(crate) use transfer::transfer;

/// Downloads the pinned wheel to the file `into`, or leaves everything unchanged.
///
/// The sources in `settings` are searched in order: plain folders, further indexes, the default index. The sha256
/// identifies the file, so it is safe to search all of them: a different file of the same name is skipped, and a source
/// that fails does not stop the search, but its failure is reported if no other source has the file.
///
/// The bytes are written to a temporary file next to `into` (`.codebox-fetch-…`) and hashed as they arrive. The file is
/// synced to the disk and only then renamed to `into`, replacing any existing file. Requests are retried as the uv
/// client does it.
///
/// Requires a tokio runtime with time and I/O. The future is not `Send` (the uv client's is not) and writes to disk on
/// the thread that polls it: run it on a thread of its own, with `Runtime::block_on`. Dropping it removes the temporary
/// file.
///
/// # Errors
/// See [`FetchError`]; after any of them the disk is unchanged.
pub fn fetch_wheel<'a>(
    pin: &'a Pin,
    settings: &'a IndexSettings,
    into: &'a Path,
    progress: &'a dyn Progress,
) -> LocalBoxFuture<'a, Result<(), FetchError>> {
    let fetched = async move {
        let registry = client::registry(settings)?;
        fetch_with_client(&registry, pin, FileKind::Wheels, settings, into, progress).await
    };
    fetched.boxed_local()
}

/// Downloads a file as [`fetch_wheel`] does, with an existing client.
#[tracing::instrument(level = "debug", name = "fetch_wheel", skip_all)]
pub(crate) async fn fetch_with_client(
    registry: &Registry,
    pin: &Pin,
    kind: FileKind,
    settings: &IndexSettings,
    into: &Path,
    progress: &dyn Progress,
) -> Result<(), FetchError> {
    let candidates = search::candidates(pin, kind, settings, registry).await?;
    let mut last = None;
    for candidate in &candidates {
        match transfer(candidate, pin, settings, registry, into, progress).await {
            // A different file under the same name and version, from an index that lists no hashes.
            Err(error @ (FetchError::WrongHash { .. } | FetchError::WrongSize { .. })) => last = Some(error),
            done => return done,
        }
    }
    Err(last.unwrap_or_else(|| source_failure::not_found(pin, settings)))
}

/// Returns the package's name and version as errors show them.
fn package(pin: &Pin) -> String {
    format!("{} {}", pin.name, pin.version)
}

impl Candidate {
    fn wrong_hash(&self, pin: &Pin, found: Sha256) -> FetchError {
        FetchError::WrongHash { file: self.file_name(), index: self.index.clone(), expected: pin.sha256, found }
    }
}
