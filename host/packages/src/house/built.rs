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

use super::{House, HouseError, arrange, tree};
use crate::disk::names;
use crate::resolve::{Target, Wheel};
use crate::source::{Sdist, broken_word};

/// An image in which source distributions are built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildPlace {
    /// Target of the wheels built there.
    pub target: Target,
    /// Identity of the image.
    pub image: String,
    /// The party that chose the image.
    pub choice: ImageChoice,
}

/// Party that chose an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageChoice {
    /// Chosen by the user for every program in that language.
    Usual,
    /// Chosen by the request for one job.
    Named,
}

/// Record of a wheel that was built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    wheel: Wheel,
    /// The file name of the source distribution, whose sha256 is the name of the note's directory.
    source: String,
    target: String,
    image: String,
    choice: ImageChoice,
    /// Key of the packages that it was built with.
    environment: String,
}

impl BuildPlace {
    fn key(&self) -> String {
        House::key(&(self.target.name(), self.target.python(), &self.image, self.choice))
    }
}

impl House {
    fn notes_dir(&self) -> PathBuf {
        self.root.join("built")
    }

    /// Returns the wheel that was built from a source distribution, if it is in the store: the one for this place or,
    /// without a place, one for any image that the user chose for all programs, with preference for a wheel for any
    /// platform.
    #[must_use]
    pub fn built(&self, sdist: &Sdist, place: Option<&BuildPlace>) -> Option<Wheel> {
        let dir = self.notes_dir().join(&sdist.0.sha256);
        let notes = match place {
            Some(place) => vec![format!("{}.json", place.key())],
            None => names(&dir),
        };
        let read = notes.into_iter().filter_map(|name| read(&dir.join(name)));
        let usual = read.filter(|note| place.is_some() || note.choice == ImageChoice::Usual);
        // The name that a caller gives to a content is not trusted.
        let its = usual.map(|note| note.wheel).filter(|wheel| is_of(sdist, &wheel.name, &wheel.version));
        let kept = its.filter(|wheel| self.modules_of(wheel).is_dir());
        kept.min_by_key(|wheel| !wheel.is_pure())
    }

    /// Reads the METADATA of a wheel in the store.
    ///
    /// # Errors
    /// When the wheel has no usable METADATA.
    pub(crate) fn metadata_of(&self, wheel: &Wheel) -> Result<Vec<u8>, HouseError> {
        arrange::metadata(wheel, &self.modules_of(wheel))
    }

    /// Stores the wheel file `made`, the result of a build. It must be a wheel for `place` with exactly the name and
    /// version of its source distribution, and must have the requirements that the source distribution declares as
    /// static. The same checks apply to it as to any other wheel. `environment` is the key of the packages that it was
    /// built with.
    ///
    /// # Errors
    /// When the wheel is refused or cannot be stored.
    pub fn keep_built(
        &self,
        sdist: &Sdist,
        place: &BuildPlace,
        environment: &str,
        made: &Path,
    ) -> Result<Wheel, HouseError> {
        let Sdist(source) = sdist;
        let file = made.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let refused = |reason: String| HouseError::Wheel { wheel: file.clone(), reason };
        let named = WheelFilename::from_str(&file).map_err(|error| refused(error.to_string()))?;
        if !is_of(sdist, named.name.as_ref(), &named.version.to_string()) {
            return Err(refused(format!("its name or version does not match {}", source.file)));
        }
        if !place.target.takes(&file) {
            return Err(refused(format!("it is not compatible with {}, for which it was built", place.target.name())));
        }
        let unpacked = self.unpacked(sdist)?;
        if let Some(reason) = unpacked.and_then(|unpacked| broken_word(&unpacked.tree, sdist, made)) {
            return Err(refused(reason));
        }
        let (sha256, size) = digest(made).map_err(HouseError::io("read", made))?;
        let (name, version) = (source.name.clone(), source.version.clone());
        let wheel = Wheel { name, version, file: file.clone(), url: String::new(), sha256, size: Some(size) };
        let _turn = self.beside_others()?;
        let wheels = self.root.join("wheels");
        tree::private(&wheels).map_err(HouseError::io("create", &wheels))?;
        let staged = Builder::new().prefix(".wheel-").tempdir_in(&wheels);
        let staged = staged.map_err(HouseError::io("create a directory in", &wheels))?;
        self.unpack(&wheel, made, staged.path())?;
        self.note(sdist, place, environment, &wheel)?;
        Ok(wheel)
    }

    fn note(&self, sdist: &Sdist, place: &BuildPlace, environment: &str, wheel: &Wheel) -> Result<(), HouseError> {
        let dir = self.notes_dir().join(&sdist.0.sha256);
        tree::private(&dir).map_err(HouseError::io("create", &dir))?;
        let note = Note {
            wheel: wheel.clone(),
            source: sdist.0.file.clone(),
            target: place.target.name(),
            image: place.image.clone(),
            choice: place.choice,
            environment: environment.to_owned(),
        };
        let written = || -> io::Result<()> {
            let mut file = NamedTempFile::with_prefix_in(".note-", &dir)?;
            serde_json::to_writer(&mut file, &note)?;
            file.persist(dir.join(format!("{}.json", place.key())))?;
            Ok(())
        };
        written().map_err(HouseError::io("write", &dir))
    }

    /// Returns the file name and sha256 of the source distribution that a wheel was built from, if any.
    pub(super) fn origin(&self, wheel_sha256: &str) -> Option<(String, String)> {
        let of = |sha256: String| {
            let dir = self.notes_dir().join(&sha256);
            let mut notes = names(&dir).into_iter().filter_map(|name| read(&dir.join(name)));
            let note = notes.find(|note| note.wheel.sha256 == wheel_sha256)?;
            Some((note.source, sha256))
        };
        names(&self.notes_dir()).into_iter().find_map(of)
    }

    /// Removes the notes of wheels that are no longer in the store.
    pub(super) fn forget_built(&self) -> io::Result<()> {
        for sha256 in names(&self.notes_dir()) {
            let dir = self.notes_dir().join(sha256);
            for name in names(&dir) {
                let path = dir.join(name);
                if read(&path).is_none_or(|note| !self.modules_of(&note.wheel).is_dir()) {
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
fn is_of(Sdist(source): &Sdist, name: &str, version: &str) -> bool {
    let same_name = |name: PackageName| PackageName::from_str(&source.name).is_ok_and(|other| other == name);
    let same_version = |version: Version| Version::from_str(&source.version).is_ok_and(|other| other == version);
    PackageName::from_str(name).is_ok_and(same_name) && Version::from_str(version).is_ok_and(same_version)
}

fn read(path: &Path) -> Option<Note> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Returns a file's sha256 and its size in bytes.
fn digest(path: &Path) -> io::Result<(String, u64)> {
    let mut hash = Sha256::new();
    let size = io::copy(&mut File::open(path)?, &mut hash)?;
    Ok((crate::Sha256::from_bytes(hash.finalize().into()).to_string(), size))
}
