//! Seals: proof that a file is the one that was written, at the cost of one `fstat` in the usual case.
//!
//! Hashing two hundred megabytes before every run would cost more than the run. A seal therefore holds the file's
//! digest and its identity in the system: inode, size, and the times of its last change. The change time is updated
//! whenever content, owner, mode or name change, and an unprivileged program cannot set it back. A file with the
//! identity of its last digest check therefore still has the same content. If the identity differs (a restored backup,
//! a copied home), the digest is checked again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use codebox_files::{UntrustedReason, check_own_or_private, check_own_or_root, hex, set_nofollow};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::WasmError;
use crate::sys;

/// The digest and the identity of a file when the digest was last checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seal {
    pub sha256: String,
    identity: Identity,
    /// The directory of a file of the installation. `None` for a file in the directory of its manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    installed_in: Option<PathBuf>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// A file that was opened under its seal.
pub(crate) struct SealedFile {
    pub file: File,
    /// The new seal to store, if the digest had to be checked again.
    pub renewed: Option<Seal>,
}

impl Seal {
    /// Seals a file in its present state. Reads the whole file.
    pub(crate) fn compute(path: &Path) -> Result<Self, WasmError> {
        let mut file = open(path)?;
        let identity = identity(&file, path, check_own_or_root)?;
        let sha256 = digest(&mut file).map_err(WasmError::io("read", path))?;
        Ok(Self { sha256, identity, installed_in: None })
    }

    /// Returns this seal for a copy of the file in the directory of an installation, whose identity is not known yet.
    pub(super) fn of_copy(&self) -> Self {
        let identity = Identity { size: self.identity.size, ..Identity::default() };
        Self { sha256: self.sha256.clone(), identity, installed_in: None }
    }

    /// Returns this seal of the manifest of an installation with the present identity of the file in `dir`.
    ///
    /// The program, which is in the same installation, is trusted without a check of its digest. So are files with the
    /// owner, mode and size of an installed file, unless they have changed since codebox first used them.
    ///
    /// # Errors
    /// [`WasmError::Damaged`] if the file is not the installed one.
    pub(super) fn adopt(&self, dir: &Path, name: &str, has_changed: bool) -> Result<Self, WasmError> {
        let path = dir.join(name);
        let mut file = open(&path)?;
        let identity = identity(&file, &path, check_own_or_private)?;
        let is_installed = identity.size == self.identity.size
            && (!has_changed || self.sha256 == digest(&mut file).map_err(WasmError::io("read", &path))?);
        match is_installed {
            true => Ok(Self { sha256: self.sha256.clone(), identity, installed_in: Some(dir.to_owned()) }),
            false => Err(WasmError::damaged(&path, "content differs from the installed file; install codebox again")),
        }
    }

    /// Returns the directory of the installation that the file is in.
    pub(super) fn installed_in(&self) -> Option<&Path> {
        self.installed_in.as_deref()
    }

    /// Returns the path of a file of the manifest in `dir`.
    pub(crate) fn path(&self, dir: &Path, name: &str) -> PathBuf {
        self.installed_in.as_deref().unwrap_or(dir).join(name)
    }

    /// Opens a file of the manifest in `dir` and checks that it is unchanged since it was sealed.
    ///
    /// # Errors
    /// [`WasmError::Damaged`] if the file is missing, not a regular file, owned by another user, writable by others, or
    /// different.
    pub(crate) fn open(&self, dir: &Path, name: &str) -> Result<SealedFile, WasmError> {
        let path = self.path(dir, name);
        let mut file = open(&path)?;
        let check_owner = if self.installed_in.is_some() { check_own_or_private } else { check_own_or_root };
        // Owner and mode are part of the identity: a change of them changes a time.
        let now = identity(&file, &path, |_| Ok(()))?;
        if now == self.identity {
            return Ok(SealedFile { file, renewed: None });
        }
        let now = identity(&file, &path, check_owner)?;
        let sha256 = digest(&mut file).map_err(WasmError::io("read", &path))?;
        if sha256 != self.sha256 {
            return Err(WasmError::damaged(&path, "content has changed since it was installed"));
        }
        io::Seek::rewind(&mut file).map_err(WasmError::io("read", &path))?;
        Ok(SealedFile { file, renewed: Some(Self { identity: now, ..self.clone() }) })
    }

    /// Checks the digest of a file of the manifest in `dir`, regardless of the identity.
    pub(crate) fn verify(&self, dir: &Path, name: &str) -> Result<(), WasmError> {
        let path = self.path(dir, name);
        let found = sha256_of_file(&path)?;
        if found == self.sha256 {
            return Ok(());
        }
        Err(WasmError::damaged(&path, format!("expected sha256 {}, found {found}", self.sha256)))
    }
}

/// Returns the sha256 of a file's content, in hexadecimal.
///
/// # Errors
/// [`WasmError::Damaged`] if the file is missing or a symbolic link, [`WasmError::Io`] if it cannot be read.
pub fn sha256_of_file(path: &Path) -> Result<String, WasmError> {
    digest(&mut open(path)?).map_err(WasmError::io("read", path))
}

/// Returns the sha256 of bytes, in hexadecimal.
pub(crate) fn sha256_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn digest(file: &mut File) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => hasher.update(&buffer[..count]),
        }
    }
    Ok(hex(&hasher.finalize()))
}

fn open(path: &Path) -> Result<File, WasmError> {
    let mut options = OpenOptions::new();
    set_nofollow(options.read(true));
    options.open(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => WasmError::damaged(path, "it is missing"),
        _ if fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink()) => {
            WasmError::damaged(path, "it is a symbolic link; name the file itself")
        }
        _ => WasmError::Io { doing: "open", path: path.to_owned(), source },
    })
}

/// Check of the owner and the mode of a file.
type OwnerCheck = fn(&fs::Metadata) -> Result<(), UntrustedReason>;

fn identity(file: &File, path: &Path, check: OwnerCheck) -> Result<Identity, WasmError> {
    let meta = file.metadata().map_err(WasmError::io("inspect", path))?;
    if !meta.is_file() {
        return Err(WasmError::damaged(path, "it is not a regular file"));
    }
    check_owner(&meta, path, check)?;
    let (device, inode, modified, changed) = sys::identity(&meta);
    Ok(Identity { device, inode, size: meta.len(), modified, changed })
}

/// Checks that a directory belongs to this user or to root and that no other user can add files to it.
pub(crate) fn check_private_dir(dir: &Path) -> Result<(), WasmError> {
    check_dir(dir, check_own_or_root)
}

/// Refuses a directory above an artefact directory, itself or the target of a link, if another user can change it.
pub(crate) fn check_ancestor_dir(dir: &Path) -> Result<(), WasmError> {
    check_owner(&fs::metadata(dir).map_err(WasmError::io("inspect", dir))?, dir, check_own_or_root)
}

/// Reads a file of an installation that is not listed in a manifest, after a check of its owner and mode.
pub(super) fn read_installed_file(path: &Path) -> Result<Vec<u8>, WasmError> {
    let mut file = open(path)?;
    identity(&file, path, check_own_or_private)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(WasmError::io("read", path))?;
    Ok(bytes)
}

/// Checks the owner and mode of all files below a directory of an installation, none of which may be a link.
pub(super) fn check_installed_tree(dir: &Path) -> Result<(), WasmError> {
    check_installed_dir(dir)?;
    for entry in fs::read_dir(dir).map_err(WasmError::io("list", dir))? {
        let path = entry.map_err(WasmError::io("list", dir))?.path();
        let meta = fs::symlink_metadata(&path).map_err(WasmError::io("inspect", &path))?;
        match meta.is_dir() {
            true => check_installed_tree(&path)?,
            false if meta.is_file() => check_owner(&meta, &path, check_own_or_private)?,
            false => return Err(WasmError::damaged(&path, "it is not a regular file")),
        }
    }
    Ok(())
}

/// Checks that a directory of an installation belongs to this user or to root and that no other user can add files to it.
pub(crate) fn check_installed_dir(dir: &Path) -> Result<(), WasmError> {
    check_dir(dir, check_own_or_private)
}

fn check_dir(dir: &Path, check: OwnerCheck) -> Result<(), WasmError> {
    let meta = fs::symlink_metadata(dir).map_err(WasmError::io("inspect", dir))?;
    if !meta.is_dir() {
        return Err(WasmError::damaged(dir, "it is not a directory"));
    }
    check_owner(&meta, dir, check)
}

fn check_owner(meta: &fs::Metadata, path: &Path, check: OwnerCheck) -> Result<(), WasmError> {
    check(meta).map_err(|reason| WasmError::damaged(path, reason.to_string()))
}

/// State of an atomically written file after a failure of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Either the old or the new file is there.
    Durable,
    /// The file may be empty or missing, and is made again at little cost.
    Reproducible,
}

/// Writes a file atomically: no reader sees a part of it, and the end of this process leaves either the old or the new file.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8], durability: Durability) -> Result<(), WasmError> {
    let failed = |e| WasmError::Io { doing: "write", path: path.to_owned(), source: e };
    let dir = path.parent().ok_or_else(|| WasmError::damaged(path, "it has no directory"))?;
    let mut temp = tempfile::Builder::new().prefix(".new-").tempfile_in(dir).map_err(failed)?;
    io::Write::write_all(&mut temp, bytes).map_err(failed)?;
    if durability == Durability::Durable {
        temp.as_file().sync_all().map_err(failed)?;
    }
    temp.persist(path).map_err(|e| failed(e.error))?;
    if durability == Durability::Reproducible {
        return Ok(());
    }
    // Windows opens no directories as files, and orders such changes itself.
    if cfg!(unix) { fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed) } else { Ok(()) }
}

/// Writes a file of mostly zeros, with holes for pages that are all zeros.
pub(crate) fn write_sparse(path: &Path, bytes: &[u8]) -> Result<(), WasmError> {
    use std::io::{Seek, SeekFrom, Write};
    const PAGE: usize = 4096;
    let failed = WasmError::io("write", path);
    let write = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        file.set_len(bytes.len() as u64)?;
        for (index, page) in bytes.chunks(PAGE).enumerate() {
            if page.iter().any(|byte| *byte != 0) {
                file.seek(SeekFrom::Start((index * PAGE) as u64))?;
                file.write_all(page)?;
            }
        }
        file.sync_all()
    };
    write().map_err(failed)
}
