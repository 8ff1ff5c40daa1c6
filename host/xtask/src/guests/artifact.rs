//! Rebuilt file of a guest and its comparison with the checked-in file.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// File as built from the sources.
pub struct Artifact {
    /// Checked-in path, relative to the workspace's root.
    pub path: PathBuf,
    /// Content; `None` if the sources no longer produce this file.
    pub bytes: Option<Vec<u8>>,
}

impl Artifact {
    /// Reads the file `name` of a guest, built in `build_dir` and checked in below `folder`.
    ///
    /// # Errors
    /// Fails if the file exists and cannot be read.
    pub fn of(name: &str, build_dir: &Path, folder: &Path) -> Result<Self> {
        Ok(Self { path: folder.join(name), bytes: read(&build_dir.join(name))? })
    }

    /// Describes how the file below `root` differs; `None` if it is the same.
    ///
    /// # Errors
    /// Fails if the file exists and cannot be read.
    pub fn difference(&self, root: &Path) -> Result<Option<String>> {
        let found = read(&root.join(&self.path))?;
        Ok(difference(found.as_deref(), self.bytes.as_deref()))
    }

    /// Replaces the file below `root`, or removes it if the sources no longer produce it.
    ///
    /// # Errors
    /// Fails if the file cannot be written or removed.
    pub fn write(&self, root: &Path) -> Result<()> {
        let path = root.join(&self.path);
        match &self.bytes {
            Some(bytes) => fs::write(&path, bytes).with_context(|| format!("write {}", self.path.display())),
            None => fs::remove_file(&path).with_context(|| format!("remove {}", self.path.display())),
        }
    }

    /// Formats the file's size and digest.
    pub fn summary(&self) -> String {
        match &self.bytes {
            Some(bytes) => format!("{} bytes, sha256 {}", bytes.len(), sha256(bytes)),
            None => "nothing".to_owned(),
        }
    }
}

/// Computes a SHA-256 digest in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a file; `None` if it is missing.
fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
    }
}

fn difference(found: Option<&[u8]>, made: Option<&[u8]>) -> Option<String> {
    match (found, made) {
        (found, made) if found == made => None,
        (Some(found), Some(made)) => {
            let offset = found.iter().zip(made).take_while(|(found, made)| found == made).count();
            Some(format!(
                "{} bytes are checked in, {} were built, and the first difference is at offset {offset}",
                found.len(),
                made.len()
            ))
        }
        (None, _) => Some("not checked in".to_owned()),
        (_, None) => Some("checked in, but not built from the sources".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_names_sizes_and_first_offset() {
        assert_eq!(difference(Some(b"abc"), Some(b"abc")), None);
        let of = |found, made| difference(found, made).unwrap_or_default();
        let summary = "3 bytes are checked in, 4 were built, and the first difference is at offset 1";
        assert_eq!(of(Some(b"abc"), Some(b"aBcd")), summary);
        assert!(of(Some(b"abc"), Some(b"abcd")).ends_with("at offset 3"));
        assert_eq!(of(None, Some(b"abc")), "not checked in");
        assert_eq!(of(Some(b"abc"), None), "checked in, but not built from the sources");
    }

    #[test]
    fn written_file_no_longer_differs() -> Result<()> {
        let root = tempfile::tempdir()?;
        let file = |bytes: Option<&[u8]>| Artifact { path: "guest.wasm".into(), bytes: bytes.map(<[u8]>::to_vec) };
        for made in [file(Some(b"one")), file(Some(b"other")), file(None)] {
            assert!(made.difference(root.path())?.is_some());
            made.write(root.path())?;
            assert_eq!(made.difference(root.path())?, None);
        }
        Ok(())
    }
}
