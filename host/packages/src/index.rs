//! Client for the user's package indexes, which downloads pinned files.

use std::path::Path;
use std::time::Duration;

use codebox_core::Progress;
use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use tokio::time::timeout;
use uv_cache::Cache;
use uv_distribution_types::FileLocation;

use crate::error::FetchError;
use crate::fetch::{Candidate, FileKind, MAX_WHEEL_SIZE, Registry, fetch_with_client, registry_with_cache, transfer};
use crate::pin::{Pin, Sha256};
use crate::settings::IndexSettings;
use crate::source::Sdist;
use crate::wheel::Wheel;

/// Name prefix of the temporary directories for whole wheels in the index cache.
pub(crate) const WHEEL_DIR_PREFIX: &str = ".whole-";

/// Number of read timeouts after which a resolution is aborted; a download gets twice as many.
const READ_TIMEOUTS_PER_RESOLUTION: u32 = 10;

/// Minimum download rate in bytes per second. The time limit of a download is extended by its size at this rate.
const MIN_DOWNLOAD_RATE: u64 = 256 << 10;

/// Client for the user's indexes.
pub(crate) struct Index<'s> {
    pub(crate) settings: &'s IndexSettings,
    pub(crate) registry: Registry,
}

impl<'s> Index<'s> {
    /// Opens a client. Responses of indexes are cached below `cache`, for other processes as well.
    ///
    /// # Errors
    /// When the cache or the client cannot be created.
    pub(crate) fn open<'a>(settings: &'s IndexSettings, cache: &'a Path) -> LocalBoxFuture<'a, Result<Self, FetchError>>
    where
        's: 'a,
    {
        let opened = async move {
            let cache = Cache::from_path(cache).init().await.map_err(|error| FetchError::Client(error.into()))?;
            Ok(Self { settings, registry: registry_with_cache(settings, cache)? })
        };
        opened.boxed_local()
    }

    /// Returns the time limit of a resolution.
    pub(crate) fn time_limit(&self) -> Duration {
        self.settings.read_timeout.saturating_mul(READ_TIMEOUTS_PER_RESOLUTION)
    }

    /// Downloads a wheel to the file `into`, if its content is the expected one.
    ///
    /// # Errors
    /// As for [`fetch_wheel`](crate::fetch_wheel), and when the time limit is exceeded.
    pub(crate) async fn download(&self, wheel: &Wheel, into: &Path, progress: &dyn Progress) -> Result<(), FetchError> {
        self.download_file(wheel, FileKind::Wheels, into, progress).await
    }

    /// Downloads a source distribution to the file `into`, if its content is the expected one.
    pub(crate) async fn download_source(
        &self,
        Sdist(file): &Sdist,
        into: &Path,
        progress: &dyn Progress,
    ) -> Result<(), FetchError> {
        self.download_file(file, FileKind::Sdists, into, progress).await
    }

    fn download_file<'a>(
        &'a self,
        wheel: &'a Wheel,
        kind: FileKind,
        into: &'a Path,
        progress: &'a dyn Progress,
    ) -> LocalBoxFuture<'a, Result<(), FetchError>> {
        let downloaded = async move {
            let sha256: Sha256 = wheel.sha256.parse().map_err(|_| FetchError::Name(wheel.file.clone()))?;
            let Wheel { name, version, file, url, size, .. } = wheel;
            let pin = Pin { name: name.clone(), version: version.clone(), sha256, size: *size };
            let time_limit =
                self.settings.read_timeout.saturating_mul(2 * READ_TIMEOUTS_PER_RESOLUTION).max(Duration::from_secs(1));
            let time_limit =
                time_limit + Duration::from_secs(size.unwrap_or(0).min(MAX_WHEEL_SIZE) / MIN_DOWNLOAD_RATE);
            let deadline_error = |index: String| {
                let source = format!("timed out downloading {file} after {} s", time_limit.as_secs()).into();
                FetchError::InvalidResponse { index, package: name.clone(), source }
            };
            if url.is_empty() {
                let found = fetch_with_client(&self.registry, &pin, kind, self.settings, into, progress);
                return timeout(time_limit, found)
                    .await
                    .unwrap_or_else(|_| Err(deadline_error("in the settings".to_owned())));
            }
            let candidate = Candidate {
                index: url_host(url),
                file: uv_distribution_types::File {
                    dist_info_metadata: false,
                    filename: file.as_str().into(),
                    hashes: Vec::new().into(),
                    requires_python: None,
                    size: *size,
                    upload_time_utc_ms: None,
                    url: FileLocation::new(url.as_str().into(), &"".into()),
                    yanked: None,
                    zstd: None,
                },
            };
            let moved = transfer(&candidate, &pin, self.settings, &self.registry, into, progress);
            timeout(time_limit, moved).await.unwrap_or_else(|_| Err(deadline_error(url_host(url))))
        };
        downloaded.boxed_local()
    }
}

/// Returns the host of a URL, for error messages.
fn url_host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.is_empty() { url.to_owned() } else { host.to_owned() }
}
