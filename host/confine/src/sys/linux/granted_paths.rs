//! Granted places, opened and classified as files or directories.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::{ConfineError, GrantedPath, Rules};

/// The granted access to a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    ReadWrite,
    RemoveEmptyDirs,
}

/// The kind of a place. Landlock rejects directory rights on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File,
}

/// A granted place with an open descriptor.
#[derive(Debug)]
pub(super) struct OpenPath {
    file: File,
    pub(super) access: Access,
    pub(super) kind: Kind,
}

impl AsFd for OpenPath {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Opens all granted places, so that an invalid one is found before any restriction is applied.
pub(super) fn open(rules: &Rules) -> Result<Vec<OpenPath>, ConfineError> {
    let Rules { read, read_write, remove_empty_dirs, exec_mappings: _, network: _, openat2: _ } = rules;
    let read = read.iter().map(|granted| open_one(granted, Access::Read));
    let read_write = read_write.iter().map(|granted| open_one(granted, Access::ReadWrite));
    let remove_empty_dirs = remove_empty_dirs.iter().map(|granted| open_one(granted, Access::RemoveEmptyDirs));
    read.chain(read_write).chain(remove_empty_dirs).collect()
}

fn open_one(granted: &GrantedPath, access: Access) -> Result<OpenPath, ConfineError> {
    let (file, kind) = match granted {
        GrantedPath::Path(path) => open_path(path)?,
        GrantedPath::Open(descriptor) => {
            let duplicate = || -> io::Result<_> {
                let file = File::from(descriptor.try_clone()?);
                let kind = kind(&file.metadata()?);
                Ok((file, kind))
            };
            duplicate().map_err(|source| ConfineError::UseDescriptor { descriptor: descriptor.as_raw_fd(), source })?
        }
    };
    Ok(OpenPath { file, access, kind })
}

fn open_path(path: &Path) -> Result<(File, Kind), ConfineError> {
    let failed = |source| ConfineError::OpenPath { path: path.to_owned(), source };
    let file =
        OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    // `O_PATH | O_NOFOLLOW` opens a link itself instead of failing.
    if metadata.is_symlink() {
        return Err(ConfineError::SymbolicLink { path: path.to_owned() });
    }
    Ok((file, kind(&metadata)))
}

fn kind(metadata: &std::fs::Metadata) -> Kind {
    if metadata.is_dir() { Kind::Directory } else { Kind::File }
}
