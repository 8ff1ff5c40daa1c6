//! Wheels built from source distributions: stored by content like all wheels, with a note of their origin.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tempfile::{Builder, NamedTempFile};
use uv_distribution_filename::WheelFilename;
use uv_normalize::PackageName;
use uv_pep440::Version;

use super::{PackageStore, StoreError, install, tree};
use crate::disk::names;
use crate::source::{Sdist, metadata_mismatch};
use crate::target::Target;
use crate::wheel::Wheel;

/// An image in which source distributions are built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BuildImage {
    /// Target of the wheels built there.
    pub(crate) target: Target,
    /// Identity of the image.
    pub(crate) image: String,
    /// The party that chose the image.
    pub(crate) choice: ImageChoice,
}

/// Party that chose an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ImageChoice {
    /// Chosen by the user for every program in that language.
    Usual,
    /// Chosen by the request for one job.
    Named,
}

/// Record of a wheel that was built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct BuildRecord {
    wheel: Wheel,
    /// The file name of the source distribution, whose sha256 is the name of the note's directory.
    source: String,
    target: String,
    image: String,
    choice: ImageChoice,
    /// Key of the packages that it was built with.
    environment: String,
}

impl BuildImage {
    fn key(&self) -> String {
        PackageStore::key(&(self.target.name(), self.target.python(), &self.image, self.choice))
    }
}

impl PackageStore {
    fn records_dir(&self) -> PathBuf {
        self.root.join("built")
    }

    /// Returns the wheel that was built from a source distribution, if it is in the store: the one for this place or,
    /// without a place, one for any image that the user chose for all programs, with preference for a wheel for any
    /// platform.
    #[must_use]
    pub(crate) fn built(&self, sdist: &Sdist, build_image: Option<&BuildImage>) -> Option<Wheel> {
        let dir = self.records_dir().join(&sdist.0.sha256);
        let records = match build_image {
            Some(build_image) => vec![format!("{}.json", build_image.key())],
            None => names(&dir),
        };
        let read = records.into_iter().filter_map(|name| read(&dir.join(name)));
        let candidates = read.filter(|record| build_image.is_some() || record.choice == ImageChoice::Usual);
        // The name that a caller gives to a content is not trusted.
        let matching =
            candidates.map(|record| record.wheel).filter(|wheel| matches_sdist(sdist, &wheel.name, &wheel.version));
        let stored = matching.filter(|wheel| self.modules_dir(wheel).is_dir());
        stored.min_by_key(|wheel| !wheel.is_pure())
    }

    /// Reads the METADATA of a wheel in the store.
    ///
    /// # Errors
    /// When the wheel has no usable METADATA.
    pub(crate) fn metadata_of(&self, wheel: &Wheel) -> Result<Vec<u8>, StoreError> {
        install::metadata(wheel, &self.modules_dir(wheel))
    }

    /// Stores the wheel file `wheel_file`, the result of a build. It must be a wheel for `build_image` with exactly the name and
    /// version of its source distribution, and must have the requirements that the source distribution declares as
    /// static. The same checks apply to it as to any other wheel. `environment` is the key of the packages that it was
    /// built with.
    ///
    /// # Errors
    /// When the wheel is refused or cannot be stored.
    pub(crate) fn store_built(
        &self,
        sdist: &Sdist,
        build_image: &BuildImage,
        environment: &str,
        wheel_file: &Path,
    ) -> Result<Wheel, StoreError> {
        let Sdist(source) = sdist;
        let file = wheel_file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let refused = |reason: String| StoreError::Wheel { wheel: file.clone(), reason };
        let named = WheelFilename::from_str(&file).map_err(|error| refused(error.to_string()))?;
        if !matches_sdist(sdist, named.name.as_ref(), &named.version.to_string()) {
            return Err(refused(format!("its name or version does not match {}", source.file)));
        }
        if !build_image.target.supports_wheel(&file) {
            return Err(refused(format!(
                "it is not compatible with {}, for which it was built",
                build_image.target.name()
            )));
        }
        let unpacked = self.unpacked(sdist)?;
        if let Some(reason) = unpacked.and_then(|unpacked| metadata_mismatch(&unpacked.tree, sdist, wheel_file)) {
            return Err(refused(reason));
        }
        let (sha256, size) = digest(wheel_file).map_err(StoreError::io("read", wheel_file))?;
        let (name, version) = (source.name.clone(), source.version.clone());
        let wheel = Wheel { name, version, file: file.clone(), url: String::new(), sha256, size: Some(size) };
        let _guard = self.acquire_shared_lock()?;
        let wheels = self.root.join("wheels");
        tree::create_private_dir(&wheels).map_err(StoreError::io("create", &wheels))?;
        let staged = Builder::new().prefix(".wheel-").tempdir_in(&wheels);
        let staged = staged.map_err(StoreError::io("create a directory in", &wheels))?;
        self.unpack(&wheel, wheel_file, staged.path())?;
        self.record(sdist, build_image, environment, &wheel)?;
        Ok(wheel)
    }

    fn record(
        &self,
        sdist: &Sdist,
        build_image: &BuildImage,
        environment: &str,
        wheel: &Wheel,
    ) -> Result<(), StoreError> {
        let dir = self.records_dir().join(&sdist.0.sha256);
        tree::create_private_dir(&dir).map_err(StoreError::io("create", &dir))?;
        let record = BuildRecord {
            wheel: wheel.clone(),
            source: sdist.0.file.clone(),
            target: build_image.target.name(),
            image: build_image.image.clone(),
            choice: build_image.choice,
            environment: environment.to_owned(),
        };
        let written = || -> io::Result<()> {
            let mut file = NamedTempFile::with_prefix_in(".note-", &dir)?;
            serde_json::to_writer(&mut file, &record)?;
            file.persist(dir.join(format!("{}.json", build_image.key())))?;
            Ok(())
        };
        written().map_err(StoreError::io("write", &dir))
    }

    /// Returns the file name and sha256 of the source distribution that a wheel was built from, if any.
    pub(super) fn origin(&self, wheel_sha256: &str) -> Option<(String, String)> {
        let of = |sha256: String| {
            let dir = self.records_dir().join(&sha256);
            let mut records = names(&dir).into_iter().filter_map(|name| read(&dir.join(name)));
            let record = records.find(|record| record.wheel.sha256 == wheel_sha256)?;
            Some((record.source, sha256))
        };
        names(&self.records_dir()).into_iter().find_map(of)
    }

    /// Removes the notes of wheels that are no longer in the store.
    pub(super) fn remove_stale_build_records(&self) -> io::Result<()> {
        for sha256 in names(&self.records_dir()) {
            let dir = self.records_dir().join(sha256);
            for name in names(&dir) {
                let path = dir.join(name);
                if read(&path).is_none_or(|record| !self.modules_dir(&record.wheel).is_dir()) {
                    fs::remove_file(&path)?;
                }
            }
            // This fails for a directory that still has notes, which stays.
            let _ = fs::remove_dir(&dir);
        }
        Ok(())
    }
}

/// Returns true if a wheel of this name and version matches a source distribution, in any spelling of both.
fn matches_sdist(Sdist(source): &Sdist, name: &str, version: &str) -> bool {
    let same_name = |name: PackageName| PackageName::from_str(&source.name).is_ok_and(|other| other == name);
    let same_version = |version: Version| Version::from_str(&source.version).is_ok_and(|other| other == version);
    PackageName::from_str(name).is_ok_and(same_name) && Version::from_str(version).is_ok_and(same_version)
}

fn read(path: &Path) -> Option<BuildRecord> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Returns a file's sha256 and its size in bytes.
fn digest(path: &Path) -> io::Result<(String, u64)> {
    let mut hash = Sha256::new();
    let size = io::copy(&mut File::open(path)?, &mut hash)?;
    Ok((crate::pin::Sha256::from_bytes(hash.finalize().into()).to_string(), size))
}
