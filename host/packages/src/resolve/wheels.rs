//! Wheels of an index that does not tell what they need: what they say themselves.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tempfile::{NamedTempFile, TempDir};
use tokio_util::compat::TokioAsyncReadCompatExt as _;
use uv_distribution::ArchiveMetadata;
use uv_distribution_types::{Dist, RegistryBuiltWheel};
use uv_pypi_types::ResolutionMetadata;
use uv_resolver::MetadataResponse;

use super::sources::Asker;
use super::{Index, ResolveError, pinned};
use crate::fetch::{Tangled, in_parts};
use crate::house::HouseError;
use crate::progress::Silent;
use crate::{condition, metadata};

/// Where it is kept what wheels say of themselves, in the cache of what indexes say.
const KEPT: &str = "codebox-metadata-v1";

impl Asker<'_> {
    /// What a wheel needs; nothing where it would have to be asked for and the network is switched off.
    pub(super) async fn metadata_of_wheel(&self, dist: &Dist, wheel: &RegistryBuiltWheel) -> Option<MetadataResponse> {
        match self.index.said_by(wheel).await {
            Ok(Some(metadata)) => Some(MetadataResponse::Found(ArchiveMetadata::from_metadata23(metadata))),
            Ok(None) => None,
            Err(trouble) => Some(self.troubled(dist, (&wheel.filename.name, &wheel.filename.version), trouble)),
        }
    }
}

impl Index<'_> {
    async fn said_by(&self, wheel: &RegistryBuiltWheel) -> Result<Option<ResolutionMetadata>, ResolveError> {
        let Some(text) = self.text_of(wheel).await? else { return Ok(None) };
        if text.len() as u64 > metadata::LARGEST || !condition::are_plain(&text) {
            let file = wheel.file.filename.to_string();
            return Err(ResolveError::Tangled(Tangled { file }.into()));
        }
        let said = ResolutionMetadata::parse_metadata(&text).map_err(|error| unsound(wheel, &error))?;
        if said.name != wheel.filename.name {
            return Err(unsound(wheel, &format!("it says that it is the package {}", said.name)));
        }
        Ok(Some(said))
    }

    /// Its METADATA: what is kept of it, a part of the file, or, where its server does not give parts, of the whole.
    async fn text_of(&self, wheel: &RegistryBuiltWheel) -> Result<Option<Vec<u8>>, ResolveError> {
        let unlocked = || ResolveError::Unlocked { file: wheel.file.filename.to_string() };
        let described = |text: Option<_>| text.ok_or_else(|| unsound(wheel, &"it does not describe its package"));
        let url = wheel.file.url.to_url().map_err(|_| unlocked())?;
        if url.scheme() == "file" {
            let path = url.to_file_path().map_err(|()| unlocked())?;
            return described(metadata::in_file(&path)).map(Some);
        }
        let pin = pinned(&wheel.filename.name, &wheel.filename.version, &wheel.file);
        let kept = pin.as_ref().ok().map(|pin| self.place_of(&pin.url, &pin.sha256));
        if let Some(text) = kept.as_deref().and_then(kept_at) {
            return Ok(Some(text));
        }
        if self.settings.connectivity.is_offline() {
            return Ok(None);
        }
        let looked_into = match in_parts(&url, &self.registry).await {
            Some(parts) => {
                let length = parts.len();
                metadata::elsewhere(parts.compat(), length).await
            }
            None => None,
        };
        let text = match looked_into {
            Some(text) => text,
            None => {
                let root = self.registry.cache.root();
                let dir = TempDir::new_in(root).map_err(HouseError::io("use", root)).map_err(unusable)?;
                let whole = dir.path().join("wheel");
                self.bring(&pin?, &whole, &Silent).await.map_err(|error| unusable(error.into()))?;
                described(metadata::in_file(&whole))?
            }
        };
        if let Some(place) = kept {
            // What could not be kept is asked for again.
            let _ = keep_at(&place, &text);
        }
        Ok(Some(text))
    }

    /// Where it is kept: by its address too, for nobody checks that a part belongs to the whole.
    fn place_of(&self, url: &str, sha256: &str) -> PathBuf {
        let key = Sha256::digest(format!("{url}\n{sha256}"));
        let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        self.registry.cache.root().join(KEPT).join(key)
    }
}

fn unsound(wheel: &RegistryBuiltWheel, why: &dyn std::fmt::Display) -> ResolveError {
    unusable(HouseError::Wheel { wheel: wheel.file.filename.to_string(), reason: why.to_string() })
}

fn unusable(error: HouseError) -> ResolveError {
    ResolveError::File(Box::new(error))
}

fn kept_at(place: &Path) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    fs::File::open(place).ok()?.take(metadata::LARGEST + 1).read_to_end(&mut text).ok()?;
    Some(text)
}

fn keep_at(place: &Path, text: &[u8]) -> std::io::Result<()> {
    let dir = place.parent().unwrap_or(place);
    fs::create_dir_all(dir)?;
    let mut file = NamedTempFile::new_in(dir)?;
    file.write_all(text)?;
    file.persist(place)?;
    Ok(())
}
