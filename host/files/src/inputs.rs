//! Copying of a job's input files into its private directories.

use std::collections::BTreeMap;
use std::io::{self, Write};

use cap_std::fs::{Dir, OpenOptions};
use sha2::{Digest, Sha256};

use crate::hex::hex;
use crate::open::make_dirs;

/// A written input file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// The size in bytes.
    pub size: u64,
    /// The sha256 of the content in lower-case hexadecimal.
    pub sha256: String,
}

/// The input files of a job by guest path.
pub type Before = BTreeMap<String, Put>;

/// Writes a file at the path of these components below `dir`, and creates missing parent directories.
///
/// A later job of a session may write the same file again. An existing file or link is replaced and never written
/// through. A parent that is a link is an error. The result is an entry for [`Before`].
///
/// # Errors
/// The system's errors, and [`io::ErrorKind::InvalidInput`] if there are no components.
pub fn put_file(dir: &Dir, parts: &[&str], content: &[u8]) -> io::Result<Put> {
    let Some((name, parents)) = parts.split_last() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let dir = make_dirs(dir, parents)?;
    let _ = dir.remove_file(name);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    dir.open_with(name, &options)?.write_all(content)?;
    Ok(Put { size: content.len() as u64, sha256: hex(&Sha256::digest(content)) })
}

#[cfg(test)]
mod tests {
    use anyhow::Result;
    use cap_std::ambient_authority;

    use super::*;

    #[test]
    fn a_file_is_put_in_with_its_parents_and_replaced() -> Result<()> {
        let home = tempfile::tempdir()?;
        let dir = Dir::open_ambient_dir(home.path(), ambient_authority())?;
        put_file(&dir, &["a", "b", "c.txt"], b"one")?;
        let put = put_file(&dir, &["a", "b", "c.txt"], b"abc")?;
        assert_eq!(dir.read("a/b/c.txt")?, b"abc");
        assert_eq!(put.size, 3);
        assert_eq!(put.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert!(put_file(&dir, &[], b"").is_err(), "a directory is no file");
        Ok(())
    }

    #[cfg(unix)]
    #[test]
    fn p4_a_link_planted_where_an_input_goes_is_replaced_and_its_target_untouched() -> Result<()> {
        let home = tempfile::tempdir()?;
        let canary = home.path().join("canary");
        std::fs::write(&canary, "untouched")?;
        std::fs::create_dir(home.path().join("work"))?;
        let dir = Dir::open_ambient_dir(home.path().join("work"), ambient_authority())?;
        std::os::unix::fs::symlink(&canary, home.path().join("work/in"))?;
        std::os::unix::fs::symlink(home.path(), home.path().join("work/sub"))?;
        put_file(&dir, &["in"], b"input")?;
        assert!(dir.symlink_metadata("in")?.is_file());
        assert_eq!(dir.read("in")?, b"input");
        assert!(put_file(&dir, &["sub", "canary"], b"input").is_err(), "no parent is a link");
        assert_eq!(std::fs::read(&canary)?, b"untouched");
        // Another hard link to the canary is replaced and not written through.
        std::fs::hard_link(&canary, home.path().join("work/hard"))?;
        put_file(&dir, &["hard"], b"input")?;
        assert_eq!(std::fs::read(&canary)?, b"untouched");
        Ok(())
    }
}
