//! Copying of a job's input files into its private directories.

use std::collections::BTreeMap;
use std::io::{self, Write};

use cap_std::fs::{Dir, OpenOptions};
use sha2::{Digest, Sha256};

use crate::hex::hex;
use crate::open::make_dirs;
use crate::sys::set_executable;

/// A written input file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputEntry {
    /// The size in bytes.
    pub size: u64,
    /// The sha256 of the content in lower-case hexadecimal.
    pub sha256: String,
}

/// The input files of a job by guest path.
pub type InputManifest = BTreeMap<String, InputEntry>;

/// Writes a file at the path of these components below `dir`, and creates missing parent directories.
///
/// A later job of a session may write the same file again. An existing file or link is replaced and never written
/// through. A parent that is a link is an error. The result is an entry for [`InputManifest`].
///
/// # Errors
/// The system's errors, and [`io::ErrorKind::InvalidInput`] if there are no components.
pub fn write_input_file(dir: &Dir, parts: &[&str], content: &[u8], executable: bool) -> io::Result<InputEntry> {
    let Some((name, parents)) = parts.split_last() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let dir = make_dirs(dir, parents)?;
    let _ = dir.remove_file(name);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if executable {
        set_executable(&mut options);
    }
    dir.open_with(name, &options)?.write_all(content)?;
    Ok(InputEntry { size: content.len() as u64, sha256: hex(&Sha256::digest(content)) })
}

/// Creates a directory at the path of these components below `dir`, with its missing parent directories.
///
/// # Errors
/// The system's errors, also if a component is a link or a file.
pub fn make_input_dir(dir: &Dir, parts: &[&str]) -> io::Result<()> {
    make_dirs(dir, parts).map(|_| ())
}

#[cfg(test)]
mod tests {
    use anyhow::Result;
    use cap_std::ambient_authority;

    use super::*;

    #[test]
    fn writes_file_with_parents_and_replaces_it() -> Result<()> {
        let home = tempfile::tempdir()?;
        let dir = Dir::open_ambient_dir(home.path(), ambient_authority())?;
        write_input_file(&dir, &["a", "b", "c.txt"], b"one", false)?;
        let entry = write_input_file(&dir, &["a", "b", "c.txt"], b"abc", false)?;
        assert_eq!(dir.read("a/b/c.txt")?, b"abc");
        assert_eq!(entry.size, 3);
        assert_eq!(entry.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert!(write_input_file(&dir, &[], b"", false).is_err(), "a directory is no file");
        Ok(())
    }

    #[cfg(unix)]
    #[test]
    fn p4_replaces_planted_link_and_leaves_its_target() -> Result<()> {
        let home = tempfile::tempdir()?;
        let canary = home.path().join("canary");
        std::fs::write(&canary, "untouched")?;
        std::fs::create_dir(home.path().join("work"))?;
        let dir = Dir::open_ambient_dir(home.path().join("work"), ambient_authority())?;
        std::os::unix::fs::symlink(&canary, home.path().join("work/in"))?;
        std::os::unix::fs::symlink(home.path(), home.path().join("work/sub"))?;
        write_input_file(&dir, &["in"], b"input", false)?;
        assert!(dir.symlink_metadata("in")?.is_file());
        assert_eq!(dir.read("in")?, b"input");
        assert!(write_input_file(&dir, &["sub", "canary"], b"input", false).is_err(), "no parent is a link");
        assert_eq!(std::fs::read(&canary)?, b"untouched");
        // Another hard link to the canary is replaced and not written through.
        std::fs::hard_link(&canary, home.path().join("work/hard"))?;
        write_input_file(&dir, &["hard"], b"input", false)?;
        assert_eq!(std::fs::read(&canary)?, b"untouched");
        Ok(())
    }
}
