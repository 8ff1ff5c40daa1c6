//! Images of virtual machines.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::error::{Layer, VmError};

mod archive;

/// Version of the images that this version of codebox uses.
pub const IMAGE_VERSION: u32 = 5;

/// File that lists the others.
const MANIFEST: &str = "manifest.json";

/// Image that cannot be used.
#[derive(Debug, Error)]
pub enum ImageError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file is not the archive of an image.
    #[error("{} is not an image: {reason}", path.display())]
    Archive {
        /// The file.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
    /// The list of files is invalid.
    #[error("{} is invalid: {reason}", path.display())]
    Manifest {
        /// The list.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
    /// The image has another version.
    #[error("the image has version {found}, and this codebox uses {IMAGE_VERSION}")]
    Version {
        /// Version of the image.
        found: u32,
    },
    /// A file is not that of the list.
    #[error("{} is damaged", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

impl ImageError {
    /// Remedy for an image that is missing or cannot be used.
    pub const FIX: &str =
        "install one with `codebox vm install FILE`; `cargo xtask vm-image --pack FILE` makes the file";
}

impl From<ImageError> for VmError {
    fn from(error: ImageError) -> Self {
        Self::new(Layer::Image, error, ImageError::FIX)
    }
}

/// Directory with the files that virtual machines are made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmImage {
    dir: PathBuf,
    manifest: Manifest,
}

/// List of the files of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    version: u32,
    /// The sha256 of each file, in hexadecimal.
    files: BTreeMap<String, String>,
}

impl Manifest {
    fn to_json(&self, path: &Path) -> Result<Vec<u8>, ImageError> {
        let invalid =
            |error: serde_json::Error| ImageError::Manifest { path: path.to_owned(), reason: error.to_string() };
        serde_json::to_vec_pretty(self).map_err(invalid)
    }
}

impl VmImage {
    /// Kernel.
    pub const KERNEL: &str = "vmlinuz";
    /// Initial file system.
    pub const INITRD: &str = "initrd.gz";
    /// Root file system, a sparse file.
    pub const ROOT: &str = "root.img";
    /// Files of the root file system, as an archive for WSL.
    pub const ARCHIVE: &str = "root.tar";
    /// Program of the machine, for a distribution that something else has installed.
    pub const GUEST: &str = "vm-guest";

    /// All of them.
    pub(crate) const ALL: [&str; 5] = [Self::KERNEL, Self::INITRD, Self::ROOT, Self::ARCHIVE, Self::GUEST];

    /// Opens an image, and checks its version and that it has the files with these names. Their content is checked by
    /// [`verify`](Self::verify).
    ///
    /// # Errors
    /// Returns an error if a file is missing or the version is another one.
    pub fn open(dir: &Path, names: &[&str]) -> Result<Self, ImageError> {
        let path = dir.join(MANIFEST);
        let text = fs::read(&path).map_err(|source| ImageError::Read { path: path.clone(), source })?;
        let invalid = |reason: String| ImageError::Manifest { path: path.clone(), reason };
        let mut manifest: Manifest = serde_json::from_slice(&text).map_err(|error| invalid(error.to_string()))?;
        if manifest.version != IMAGE_VERSION {
            return Err(ImageError::Version { found: manifest.version });
        }
        for &name in names {
            if !manifest.files.contains_key(name) {
                return Err(invalid(format!("it does not list {name}")));
            }
            let path = dir.join(name);
            if let Err(source) = fs::metadata(&path) {
                return Err(ImageError::Read { path, source });
            }
        }
        manifest.files.retain(|name, _| names.contains(&name.as_str()));
        Ok(Self { dir: dir.to_owned(), manifest })
    }

    /// Writes the list of the files of a new image.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or the list cannot be written.
    pub fn seal(dir: &Path) -> Result<Self, ImageError> {
        let mut files = BTreeMap::new();
        for name in Self::ALL {
            files.insert(name.to_owned(), digest(&dir.join(name))?);
        }
        let manifest = Manifest { version: IMAGE_VERSION, files };
        let path = dir.join(MANIFEST);
        let text = manifest.to_json(&path)?;
        fs::write(&path, text).map_err(|source| ImageError::Write { path, source })?;
        Self::open_all(dir)
    }

    /// Opens an image with the files for all providers.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_all(dir: &Path) -> Result<Self, ImageError> {
        Self::open(dir, &Self::ALL)
    }

    /// Checks the content of all files.
    ///
    /// # Errors
    /// Returns an error that names the first damaged file.
    pub fn verify(&self) -> Result<(), ImageError> {
        for (name, expected) in &self.manifest.files {
            let path = self.dir.join(name);
            if digest(&path)? != *expected {
                return Err(ImageError::Damaged { path });
            }
        }
        Ok(())
    }

    /// Returns the sha256 of a file in hexadecimal, as the list has it; `None` for one that it was not opened with.
    #[must_use]
    pub fn digest_of(&self, name: &str) -> Option<&str> {
        self.manifest.files.get(name).map(String::as_str)
    }

    /// Returns the path of a file.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

fn digest(path: &Path) -> Result<String, ImageError> {
    let mut digest = Sha256::new();
    let read = File::open(path).and_then(|mut file| io::copy(&mut file, &mut digest));
    read.map_err(|source| ImageError::Read { path: path.to_owned(), source })?;
    Ok(codebox_files::hex(&digest.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_and_incomplete_images_are_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let open = || VmImage::open(dir.path(), &[VmImage::KERNEL, VmImage::ROOT]);
        assert!(matches!(open(), Err(ImageError::Read { .. })));
        for name in VmImage::ALL {
            fs::write(dir.path().join(name), name).expect("it is ours");
        }
        let image = VmImage::seal(dir.path()).expect("an image");
        image.verify().expect("it is intact");
        fs::write(image.file(VmImage::ROOT), "changed").expect("it is ours");
        let error = open().expect("it has all files").verify().expect_err("it was changed");
        assert!(error.to_string().contains("root.img is damaged"), "{error}");
        let manifest = dir.path().join(MANIFEST);
        let text = fs::read_to_string(&manifest).expect("a list");
        fs::write(&manifest, text.replace("\"version\": 5", "\"version\": 99")).expect("it is ours");
        assert!(matches!(open(), Err(ImageError::Version { found: 99 })));
        fs::write(&manifest, text.replace("vmlinuz", "other")).expect("it is ours");
        assert!(matches!(open(), Err(ImageError::Manifest { .. })));
        fs::write(&manifest, "{").expect("it is ours");
        assert!(matches!(open(), Err(ImageError::Manifest { .. })));
    }
}
