//! Unpacking of gzip-compressed tar archives into a new directory.

use std::cell::Cell;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use codebox_files::{LimitedReader, MAX_MEMBER_HEADER};
use flate2::read::MultiGzDecoder;
use tar::{Archive, EntryType};

use super::names::truncated;
use super::{UnpackLimits, create_dirs, is_safe_path};
use crate::error::UnpackError;

/// Summary of an unpacked archive.
pub(crate) struct UnpackSummary {
    /// Total size of all files in bytes.
    pub(crate) bytes: u64,
    /// The names of all files.
    pub(crate) names: Vec<String>,
}

/// Unpacks an archive into the directory `into`, which must not exist. The first component of each name is dropped.
///
/// The archive is not trusted, even if its digest is correct. It is refused if a member has a name that is absolute,
/// refers to a parent directory or is not the same file on every system, occurs twice, or is neither a file nor a
/// directory, and as soon as it unpacks to more than `limits` allow. Files are made read-only. Of their modes, only the
/// owner's execute permission is kept; their times are not.
///
/// # Errors
/// See [`UnpackError`]. After an error, `into` may hold a part of the archive: unpack to a directory that can be
/// removed.
pub(crate) fn unpack(
    limits: &UnpackLimits,
    what: &str,
    archive: impl Read,
    into: &Path,
) -> Result<UnpackSummary, UnpackError> {
    fs::create_dir(into).map_err(|source| UnpackError::Write { path: into.to_owned(), source })?;
    let unsound = |error: io::Error| UnpackError::Archive { path: what.into(), source: error.into() };
    let header_budget = Cell::new(MAX_MEMBER_HEADER);
    // The bound includes bytes that no member's size covers: headers, padding, and data after the end.
    let remaining = limits.bytes.saturating_mul(2);
    let mut archive = Archive::new(LimitedReader::new(MultiGzDecoder::new(archive), remaining, &header_budget));
    let (mut seen, mut names, mut bytes, mut count, mut directories) = (HashSet::new(), Vec::new(), 0, 0, 0);
    let mut entries = archive.entries().map_err(unsound)?;
    loop {
        header_budget.set(MAX_MEMBER_HEADER);
        let Some(entry) = entries.next() else { return Ok(UnpackSummary { bytes, names }) };
        let mut entry = entry.map_err(unsound)?;
        count += 1;
        limits.check_member_count(count)?;
        let path = entry.path_bytes().into_owned();
        let full = String::from_utf8(path)
            .map_err(|error| UnpackError::Name(truncated(&String::from_utf8_lossy(error.as_bytes()))))?;
        let kind = entry.header().entry_type();
        match kind {
            EntryType::Regular | EntryType::Continuous | EntryType::Directory => {}
            // A global header applies to the whole archive and is not a member.
            EntryType::XGlobalHeader => continue,
            _ => return Err(UnpackError::Kind(truncated(&full))),
        }
        if !is_safe_path(full.strip_prefix("./").unwrap_or(&full)) {
            return Err(UnpackError::Name(truncated(&full)));
        }
        // Entries of directories are skipped: each directory is created with the first file in it.
        let inner = full.strip_prefix("./").unwrap_or(&full).split_once('/').map(|(_, rest)| rest);
        let name = match (kind, inner) {
            (EntryType::Directory, _) => continue,
            (_, Some(name)) if !name.is_empty() && !name.ends_with('/') => name.to_owned(),
            _ => return Err(UnpackError::Name(truncated(&full))),
        };
        // Some systems ignore case.
        if !seen.insert(name.to_lowercase()) {
            return Err(UnpackError::Duplicate(truncated(&name)));
        }
        bytes += entry.size();
        if bytes > limits.bytes {
            return Err(UnpackError::TooLarge { member: name, allowed: limits.bytes });
        }
        let path = into.join(&name);
        if let Some(parent) = path.parent() {
            let unwritable = |source| UnpackError::Write { path: path.clone(), source };
            directories += create_dirs(parent).map_err(unwritable)?;
        }
        limits.check_member_count(names.len() + 1 + directories)?;
        let is_executable = entry.header().mode().is_ok_and(|mode| mode & 0o100 != 0);
        header_budget.set(u64::MAX);
        write(&mut entry, &name, is_executable, &path)?;
        names.push(name);
    }
}

fn write(entry: &mut impl Read, name: &str, is_executable: bool, path: &Path) -> Result<(), UnpackError> {
    let unwritable = |source| UnpackError::Write { path: path.to_owned(), source };
    let mut file = File::create_new(path).map_err(unwritable)?;
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
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, if is_executable { 0o555 } else { 0o444 });
    #[cfg(not(unix))]
    {
        let _ = is_executable;
        mode.set_readonly(true);
    }
    file.set_permissions(mode).map_err(unwritable)
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use tar::{Builder, Header};

    use super::*;

    fn header(kind: EntryType, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(size);
        header.set_path("top/a").expect("a short name");
        header.set_cksum();
        header
    }

    /// Unpacks an archive with these members. Returns the result, and true if anything was written.
    fn unpacked(fill: impl FnOnce(&mut Builder<GzEncoder<Vec<u8>>>)) -> (Result<UnpackSummary, UnpackError>, bool) {
        let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        fill(&mut builder);
        let packed = builder.into_inner().and_then(GzEncoder::finish).expect("an archive");
        let parent_dir = tempfile::tempdir().expect("a directory");
        let into = parent_dir.path().join("into");
        let limits = UnpackLimits { members: 1000, ..UnpackLimits::default() };
        let done = unpack(&limits, "a.tar.gz", packed.as_slice(), &into);
        let written = fs::read_dir(&into).expect("a directory").next().is_some();
        (done, written)
    }

    #[test]
    fn limits_header_data_of_members() {
        for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader, EntryType::XGlobalHeader] {
            let (done, written) = unpacked(|builder| {
                builder
                    .append(&header(kind, 2 * MAX_MEMBER_HEADER), io::repeat(b'a').take(2 * MAX_MEMBER_HEADER))
                    .expect("a member");
                builder.append(&header(EntryType::Regular, 1), &b"1"[..]).expect("a member");
            });
            let error = done.err().expect("a refusal");
            let cause = error.source().map(ToString::to_string).unwrap_or_default();
            assert!(cause.contains("header of a member") && !written, "{kind:?}: {error}: {cause}");
        }
        // A long valid name is accepted, and the limit does not apply to data.
        let name = format!("top/{}file", "deep/".repeat(50));
        let (done, _) = unpacked(|builder| {
            let mut long = header(EntryType::Regular, 3 * MAX_MEMBER_HEADER);
            builder.append_data(&mut long, &name, io::repeat(b'a').take(3 * MAX_MEMBER_HEADER)).expect("a member");
            builder.append(&header(EntryType::Regular, 1), &b"1"[..]).expect("a member");
        });
        assert_eq!(done.expect("an archive").bytes, 3 * MAX_MEMBER_HEADER + 1);
        // The error contains only a part of the name.
        let (done, _) = unpacked(|builder| {
            let mut long = header(EntryType::Regular, 0);
            builder.append_data(&mut long, "x".repeat(100_000), io::empty()).expect("a member");
        });
        let error = done.err().expect("a refusal");
        assert!(matches!(&error, UnpackError::Name(_)) && error.to_string().len() < 1000, "{error}");
    }

    #[test]
    fn counts_directories_as_members() {
        let filled = |files: usize, depth: usize| {
            unpacked(|builder| {
                for number in 0..files {
                    let name = format!("top/{number}/{}file", "d/".repeat(depth));
                    builder.append_data(&mut header(EntryType::Regular, 0), name, io::empty()).expect("a member");
                }
            })
        };
        assert_eq!(filled(30, 30).0.expect("the archive is within the limit").names.len(), 30);
        assert!(matches!(filled(32, 31).0, Err(UnpackError::TooMany { allowed: 1000, .. })));
    }
}
