//! Members of an archive of tar, packed by gzip, into a new directory.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use tar::{Archive, EntryType};

use super::{UnpackLimits, is_harmless};
use crate::error::UnpackError;

/// What an archive held.
pub(crate) struct Held {
    /// Bytes of all files.
    pub(crate) bytes: u64,
    /// The names of all files.
    pub(crate) names: Vec<String>,
}

/// Unpacks an archive into the directory `into`, which must not be there; of each name the first component is left out.
///
/// The archive is not trusted, even where its digest is right. It is refused if a member has a name that is absolute, goes
/// upwards or is not the same file to every system, occurs twice, or is anything but a file or a directory, and as soon as it
/// unpacks to more than `limits` allow. Files are made read-only; of their modes it is taken over whether their owner may run
/// them, of times nothing.
///
/// # Errors
/// See [`UnpackError`]. What is in `into` by then is of no use: unpack to where it can be removed.
pub(crate) fn unpack(limits: &UnpackLimits, what: &str, archive: impl Read, into: &Path) -> Result<Held, UnpackError> {
    fs::create_dir(into).map_err(|source| UnpackError::Write { path: into.to_owned(), source })?;
    let unsound = |error: io::Error| UnpackError::Archive { path: what.into(), source: error.into() };
    // Also what no member's size tells of: headers, gaps, and what comes after the end.
    let stream = Bounded { inner: MultiGzDecoder::new(archive), left: limits.bytes.saturating_mul(2) };
    let mut archive = Archive::new(stream);
    let (mut seen, mut names, mut bytes, mut count) = (HashSet::new(), Vec::new(), 0, 0);
    for entry in archive.entries().map_err(unsound)? {
        let mut entry = entry.map_err(unsound)?;
        count += 1;
        if count > limits.members {
            return Err(UnpackError::TooMany { found: count, allowed: limits.members });
        }
        let path = entry.path_bytes().into_owned();
        let full = String::from_utf8(path)
            .map_err(|error| UnpackError::Name(String::from_utf8_lossy(error.as_bytes()).into_owned()))?;
        let kind = entry.header().entry_type();
        match kind {
            EntryType::Regular | EntryType::Continuous | EntryType::Directory => {}
            // A comment on the whole archive.
            EntryType::XGlobalHeader => continue,
            _ => return Err(UnpackError::Kind(full)),
        }
        if !is_harmless(full.strip_prefix("./").unwrap_or(&full)) {
            return Err(UnpackError::Name(full));
        }
        // A directory is there when something is in it.
        let inner = full.strip_prefix("./").unwrap_or(&full).split_once('/').map(|(_, rest)| rest);
        let name = match (kind, inner) {
            (EntryType::Directory, _) => continue,
            (_, Some(name)) if !name.is_empty() && !name.ends_with('/') => name.to_owned(),
            _ => return Err(UnpackError::Name(full)),
        };
        // One name on systems that do not tell upper from lower case.
        if !seen.insert(name.to_lowercase()) {
            return Err(UnpackError::Duplicate(name));
        }
        bytes += entry.size();
        if bytes > limits.bytes {
            return Err(UnpackError::TooLarge { member: name, allowed: limits.bytes });
        }
        let runs = entry.header().mode().is_ok_and(|mode| mode & 0o100 != 0);
        write(&mut entry, &name, runs, into)?;
        names.push(name);
    }
    Ok(Held { bytes, names })
}

fn write(entry: &mut impl Read, name: &str, runs: bool, into: &Path) -> Result<(), UnpackError> {
    let path = into.join(name);
    let unwritable = |source| UnpackError::Write { path: path.clone(), source };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(unwritable)?;
    }
    let mut file = File::create_new(&path).map_err(unwritable)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = entry.read(&mut buffer);
        match count.map_err(|source| UnpackError::Member { member: name.to_owned(), source })? {
            0 => break,
            count => file.write_all(&buffer[..count]).map_err(unwritable)?,
        }
    }
    let mut mode = file.metadata().map_err(unwritable)?.permissions();
    #[cfg(unix)]
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, if runs { 0o555 } else { 0o444 });
    #[cfg(not(unix))]
    {
        let _ = runs;
        mode.set_readonly(true);
    }
    file.set_permissions(mode).map_err(unwritable)
}

/// A stream that ends with an error when there is more of it than there should be.
struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let left = self.left.checked_sub(count as u64);
        self.left = left.ok_or_else(|| io::Error::other("it unpacks to more than is allowed"))?;
        Ok(count)
    }
}
