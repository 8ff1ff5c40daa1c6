//! Keeps a read-only grant read-only if a writable grant contains the same host directory.
//!
//! `--dir ./data:/data:ro --dir .:/work:rw` grants `./data` twice: by itself, read-only, and as a part of the writable
//! directory. The stricter grant applies to every path that leads there, also through a link or a `..`, so a change
//! below the writable mount is allowed only after its path has been resolved.

use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use codebox_core::Access;

use crate::mounts::mount::Mount;

/// The protected part of a writable mount: read-only grants below its own directory.
#[derive(Debug)]
pub(crate) struct MountGuard {
    dir: Dir,
    /// Paths of the protected directories, relative to the mount's directory.
    protected: Vec<PathBuf>,
}

/// Maximum number of links to follow, as in the kernel.
const MAX_LINKS: usize = 40;

/// Treatment of a link as a path's last component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FinalSymlink {
    Follow,
    NoFollow,
}

impl MountGuard {
    /// Returns the guard of one mount among all, or `None` if no directory has to be protected.
    pub(crate) fn for_mount(mount: &Mount, all: &[Mount]) -> io::Result<Option<Self>> {
        if mount.access == Access::ReadOnly {
            return Ok(None);
        }
        let protected: Vec<PathBuf> = all
            .iter()
            .filter(|other| other.access == Access::ReadOnly && other.host != mount.host)
            .filter_map(|other| other.host.strip_prefix(&mount.host).ok().map(Path::to_owned))
            .collect();
        if protected.is_empty() {
            return Ok(None);
        }
        let dir = Dir::open_ambient_dir(&mount.host, ambient_authority())?;
        Ok(Some(Self { dir, protected }))
    }

    /// Returns true if a change at `path`, relative to the mount, does not affect a protected directory.
    pub(crate) fn allows(&self, path: &str, final_symlink: FinalSymlink) -> bool {
        // A path that does not end in a name refers to the target of a link, regardless of the call.
        let final_symlink = if ends_in_name(path) { final_symlink } else { FinalSymlink::Follow };
        match self.location(Path::new(if path.is_empty() { "." } else { path }), final_symlink) {
            // Moving a parent of a protected directory would move the protected directory too.
            Ok(real) => {
                !self.protected.iter().any(|location| real.starts_with(location) || location.starts_with(&real))
            }
            // If the path cannot be found, the change itself fails.
            Err(e) => e.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Resolves all links of a path. The path's last component need not exist.
    fn location(&self, path: &Path, final_symlink: FinalSymlink) -> io::Result<PathBuf> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            let Some(name) = path.file_name() else { return self.canonical_path(&path) };
            let parent = match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                Some(parent) => self.canonical_path(parent)?,
                None => PathBuf::new(),
            };
            let real = parent.join(name);
            if final_symlink == FinalSymlink::NoFollow {
                return Ok(real);
            }
            match self.dir.symlink_metadata(&real) {
                Ok(meta) if meta.is_symlink() => path = parent.join(self.dir.read_link_contents(&real)?),
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => return Ok(real),
            }
            if path.is_absolute() {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
        }
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

impl MountGuard {
    /// Resolves the links and dots of an existing path. The result is empty for the mount itself.
    fn canonical_path(&self, path: &Path) -> io::Result<PathBuf> {
        let real = self.dir.canonicalize(path)?;
        Ok(real.components().filter(|component| *component != Component::CurDir).collect())
    }
}

/// Returns true if a path's last component is a name, and not empty, `.` or `..`.
fn ends_in_name(path: &str) -> bool {
    !matches!(path.rsplit('/').next(), Some("" | "." | "..") | None)
}

/// Descriptors of open directories and protected files below guarded mounts. Changes of these files, and at paths
/// relative to these directories, are refused.
#[derive(Debug, Default)]
pub(crate) struct GuardedFds(BTreeSet<i32>);

impl GuardedFds {
    pub(crate) fn record_open(&mut self, fd: i32) {
        self.0.insert(fd);
    }

    pub(crate) fn record_close(&mut self, fd: i32) {
        self.0.remove(&fd);
    }

    pub(crate) fn contains(&self, fd: i32) -> bool {
        self.0.contains(&fd)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use codebox_core::GuestPath;

    use super::*;

    fn guard(root: &Path) -> MountGuard {
        std::fs::create_dir_all(root.join("x/data")).expect("the directory is created");
        std::fs::create_dir_all(root.join("other")).expect("the directory is created");
        symlink("x/data", root.join("link")).expect("the link is created");
        symlink("../x", root.join("other/up")).expect("the link is created");
        symlink("x/data/missing", root.join("dangling")).expect("the link is created");
        symlink("../dangling", root.join("other/chain")).expect("the link is created");
        symlink(".", root.join("dot")).expect("the link is created");
        symlink("round", root.join("round")).expect("the link is created");
        let mount = |host: PathBuf, access| Mount { guest: GuestPath::work(), host, access };
        let mounts = [mount(root.to_owned(), Access::ReadWrite), mount(root.join("x/data"), Access::ReadOnly)];
        MountGuard::for_mount(&mounts[0], &mounts).expect("the directory opens").expect("there is something to protect")
    }

    #[test]
    fn rejects_paths_into_protected_directory() {
        let root = tempfile::tempdir().expect("a scratch directory");
        let guard = guard(root.path());
        for path in ["x/data/new", "link/new", "other/../x/data/new", "other/up/data/new", "./x//data/new", "x/data/"] {
            assert!(!guard.allows(path, FinalSymlink::Follow), "{path}");
        }
        assert!(!guard.allows("link", FinalSymlink::Follow), "opening a link for writing follows it");
        for path in ["dangling", "other/chain", "round"] {
            assert!(!guard.allows(path, FinalSymlink::Follow), "{path}: making a file follows a dangling link");
            assert!(guard.allows(path, FinalSymlink::NoFollow), "{path} is a link of the guest's own");
        }
        for path in ["link/", "link/.", "link/..", "other/up/data/..", "x/data/../data/."] {
            assert!(!guard.allows(path, FinalSymlink::NoFollow), "{path} refers to the target of the link");
        }
    }

    #[test]
    fn rejects_moving_parent_of_protected_directory() {
        let root = tempfile::tempdir().expect("a scratch directory");
        let guard = guard(root.path());
        assert!(!guard.allows("x", FinalSymlink::NoFollow));
        assert!(!guard.allows("x/data", FinalSymlink::NoFollow));
        for path in ["./x", "other/../x", "dot/x", "./dot/./x", "x/../x", "other/up/../x", "."] {
            assert!(!guard.allows(path, FinalSymlink::NoFollow), "{path} holds a protected place");
        }
        assert!(guard.allows("link", FinalSymlink::NoFollow), "the link itself is not protected");
    }

    #[test]
    fn rejects_moving_protected_child_of_mount_root() {
        let root = tempfile::tempdir().expect("a scratch directory");
        std::fs::create_dir_all(root.path().join("data")).expect("the directory is created");
        std::fs::create_dir(root.path().join("sub")).expect("the directory is created");
        symlink(".", root.path().join("dot")).expect("the link is created");
        let mount = |host: PathBuf, access| Mount { guest: GuestPath::work(), host, access };
        let mounts =
            [mount(root.path().to_owned(), Access::ReadWrite), mount(root.path().join("data"), Access::ReadOnly)];
        let guard = MountGuard::for_mount(&mounts[0], &mounts)
            .expect("the directory opens")
            .expect("there is something to protect");
        for path in ["data", "./data", "sub/../data", "dot/data", "dot/dot/data", "dot/sub/.././data"] {
            assert!(!guard.allows(path, FinalSymlink::NoFollow), "{path}");
            assert!(!guard.allows(&format!("{path}/f"), FinalSymlink::Follow), "{path}/f");
        }
        assert!(guard.allows("dot/sub", FinalSymlink::NoFollow));
    }

    #[test]
    fn allows_unprotected_paths() {
        let root = tempfile::tempdir().expect("a scratch directory");
        let guard = guard(root.path());
        for path in ["new", "other/new", "x/new", "x/data2/new", "missing/new"] {
            assert!(guard.allows(path, FinalSymlink::Follow), "{path}");
        }
    }
}
