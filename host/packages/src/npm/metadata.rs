//! Package metadata of a registry, cached on disk with its ETag.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::client::{Client, RegistryQuery, RegistryResponse};
use super::error::NpmError;
use super::name::NpmName;
use super::settings::{NpmSettings, redacted_url};
use super::similar_names::similar_names;
use super::store::NpmStore;

/// Media type of the abbreviated metadata, which suffices for an installation.
const ABBREVIATED_METADATA: &str = "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8, */*";

/// Maximum size of a response in bytes: the abbreviated metadata of packages with the most versions has tens of
/// megabytes.
const MAX_RESPONSE_SIZE: u64 = 128 << 20;

/// Time for which a cached response is valid.
const RESPONSE_TTL: Duration = Duration::from_secs(5 * 60);

/// Metadata of all versions of one package.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Packument {
    #[serde(default, rename = "dist-tags")]
    pub(super) tags: BTreeMap<String, String>,
    /// Manifests by version. Each is parsed only when it is chosen: old ones have irregular contents.
    #[serde(default)]
    pub(super) versions: Map<String, Value>,
}

/// Returns the cached metadata of a package, or requests it from the registry.
pub(super) async fn packument(
    name: &NpmName,
    settings: &NpmSettings<'_>,
    client: &Client<'_>,
    store: &NpmStore,
) -> Result<Packument, NpmError> {
    let registry = settings.registry_for(name);
    let what = name.to_string();
    let answer =
        |detail: String| NpmError::InvalidResponse { registry: redacted_url(registry), what: what.clone(), detail };
    let url = registry.join(&name.url_segment()).map_err(|error| answer(error.to_string()))?;
    let file = store.metadata(url.as_str());
    let missing = || NpmError::NotFound {
        similar_names: similar_names(name.as_str()),
        name: what.clone(),
        registry: redacted_url(registry),
    };
    // An unpublished or reserved name has a response without versions.
    let non_empty = |packument: Packument| if packument.versions.is_empty() { Err(missing()) } else { Ok(packument) };
    let cached = CachedResponse::read(&file, url.as_str());
    if let Some(cached) = &cached
        && (cached.fresh || client.is_offline())
        && let Ok(packument) = serde_json::from_slice(&cached.body)
    {
        return non_empty(packument);
    }
    let etag = cached.as_ref().and_then(|cached| cached.etag.as_deref());
    let query = RegistryQuery {
        what: &what,
        registry,
        url: &url,
        accept: ABBREVIATED_METADATA,
        etag,
        max_size: MAX_RESPONSE_SIZE,
    };
    let read = |body: &[u8]| serde_json::from_slice(body).map_err(|error| answer(error.to_string()));
    match (client.execute(&query).await?, &cached) {
        (RegistryResponse::Body(body, etag), _) => {
            let packument = read(&body)?;
            CachedResponse::write(&file, url.as_str(), etag.as_deref(), &body, store);
            non_empty(packument)
        }
        (RegistryResponse::NotModified, Some(cached)) => {
            let packument = read(&cached.body)?;
            CachedResponse::write(&file, url.as_str(), etag, &cached.body, store);
            non_empty(packument)
        }
        (RegistryResponse::NotModified | RegistryResponse::Nothing, _) => Err(missing()),
    }
}

/// A cached response: the first line holds its URL and ETag, and the rest is the body.
struct CachedResponse {
    etag: Option<String>,
    fresh: bool,
    body: Vec<u8>,
}

impl CachedResponse {
    fn read(file: &Path, url: &str) -> Option<Self> {
        let age = SystemTime::now().duration_since(fs::metadata(file).ok()?.modified().ok()?).ok()?;
        let mut text = fs::read(file).ok()?;
        let line = text.iter().position(|byte| *byte == b'\n')?;
        let (cached, etag): (String, Option<String>) = serde_json::from_slice(&text[..line]).ok()?;
        if cached != url {
            return None;
        }
        text.drain(..=line);
        Some(Self { etag, fresh: age < RESPONSE_TTL, body: text })
    }

    /// Caches a response. A full disk is not an error.
    fn write(file: &Path, url: &str, etag: Option<&str>, body: &[u8], store: &NpmStore) {
        let Ok(mut text) = serde_json::to_vec(&(url, etag)) else { return };
        text.push(b'\n');
        text.extend_from_slice(body);
        let _ = store.write(file, &text);
    }
}
