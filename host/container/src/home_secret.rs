//! The secret of a home, which distinguishes the home's containers from all others.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use codebox_files::{check_own_or_root, hex, private_dir, set_nofollow};
use sha2::{Digest as _, Sha256};

/// Name of the file that holds the secret.
const FILE_NAME: &str = "home-secret";

/// Length of the secret in characters: 256 bits in hexadecimal.
const LENGTH: usize = 64;

/// A random number that is stored only in private files of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HomeSecret(String);

impl HomeSecret {
    /// Reads the secret in `folder`. Generates and stores one if there is none.
    ///
    /// # Errors
    /// Returns an error if the folder is not private, or if the file can be neither read nor written.
    pub(crate) fn load_or_create(folder: &Path) -> io::Result<Self> {
        private_dir(folder)?;
        let path = folder.join(FILE_NAME);
        match read(&path) {
            Ok(Some(secret)) => return Ok(secret),
            // The file is damaged. Containers that were created with the old secret are left alone from now on.
            Ok(None) => fs::remove_file(&path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let secret = Self(format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>()));
        // Created with permissions for this user alone.
        let mut file = tempfile::Builder::new().prefix(".secret-").tempfile_in(folder)?;
        file.write_all(secret.0.as_bytes())?;
        match file.persist_noclobber(&path) {
            Ok(_) => Ok(secret),
            Err(failed) if failed.error.kind() == io::ErrorKind::AlreadyExists => {
                read(&path)?.ok_or_else(|| io::Error::other(format!("{} is damaged", path.display())))
            }
            Err(failed) => Err(failed.error),
        }
    }

    /// Computes the proof that this home created the container of this name.
    ///
    /// The proof depends on the name, so a container that copies the labels of another has no valid proof.
    pub(crate) fn proof(&self, name: &str) -> String {
        let Self(secret) = self;
        hex(&Sha256::digest(format!("codebox container\n{secret}\n{name}\n{secret}")))
    }
}

/// Reads a secret. Returns `None` if the file does not hold one.
fn read(path: &Path) -> io::Result<Option<HomeSecret>> {
    let file: File = set_nofollow(fs::OpenOptions::new().read(true)).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() || check_own_or_root(&meta).is_err() {
        return Ok(None);
    }
    let mut text = String::new();
    file.take(LENGTH as u64 + 1).read_to_string(&mut text)?;
    let is_secret = text.len() == LENGTH && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    Ok(is_secret.then_some(HomeSecret(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_a_separate_secret_per_home() -> io::Result<()> {
        let [first, second] = [tempfile::tempdir()?, tempfile::tempdir()?];
        let secret = HomeSecret::load_or_create(first.path())?;
        assert_eq!(HomeSecret::load_or_create(first.path())?, secret);
        assert_ne!(HomeSecret::load_or_create(second.path())?, secret);
        assert_ne!(secret.proof("codebox-run-a-00000000"), secret.proof("codebox-run-a-00000001"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            assert_eq!(fs::metadata(first.path().join(FILE_NAME))?.mode() & 0o777, 0o600);
        }
        fs::write(first.path().join(FILE_NAME), "damaged")?;
        assert_ne!(HomeSecret::load_or_create(first.path())?, secret);
        Ok(())
    }
}
