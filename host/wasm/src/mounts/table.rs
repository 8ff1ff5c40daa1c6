//! The mounts of one guest and their descriptors.

use codebox_core::path::MappedPath;

use crate::devices;
use crate::mounts::guard::{FinalSymlink, GuardedFds, MountGuard};
use crate::mounts::mount::Mount;
use crate::mounts::resolve::{Prefix, resolve};

/// The descriptor of `/`, the only directory that is preopened for the guest.
pub(crate) const ROOT_FD: i32 = 3;

/// Table that maps the guest's paths to descriptors.
#[derive(Debug, Default)]
pub(crate) struct MountTable {
    /// The paths of the mounts, then the path of the virtual devices.
    prefixes: Vec<Vec<String>>,
    guards: Vec<Option<MountGuard>>,
    guarded: GuardedFds,
    /// Guest path, without the first slash, of the mount of paths that begin with no mount; `None` for the root.
    default: Option<String>,
}

/// A path argument after redirection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathLocation {
    /// The descriptor that the path is relative to.
    pub fd: i32,
    /// Number of bytes of the path to skip.
    pub skip: usize,
    /// The mount that contains the path.
    pub mount: Option<usize>,
}

/// The target of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A file on a disk, which may not exist.
    Files(PathLocation),
    /// The virtual devices, with the offset of the path's rest in bytes.
    Devices { skip: usize },
}

impl MountTable {
    /// Creates a table of these mounts. Their descriptors follow the descriptor of the root in the same order.
    ///
    /// # Errors
    /// The system's error if a directory that needs a guard cannot be opened.
    pub(crate) fn new(mounts: &[Mount]) -> std::io::Result<Self> {
        let mut prefixes: Vec<Vec<String>> =
            mounts.iter().map(|mount| mount.guest.components().map(str::to_owned).collect()).collect();
        prefixes.push(vec![devices::DIRECTORY.to_owned()]);
        let guards = mounts.iter().map(|mount| MountGuard::for_mount(mount, mounts)).collect::<Result<_, _>>()?;
        Ok(Self { prefixes, guards, guarded: GuardedFds::default(), default: None })
    }

    /// Sets the mount to which paths lead that begin with no mount. The libraries of programs pass relative paths in that form.
    pub(crate) fn set_default(&mut self, mount: Option<usize>) {
        self.default = mount.and_then(|index| self.prefixes.get(index)).map(|prefix| prefix.join("/"));
    }

    /// Returns true if a change is allowed at `path`, which [`target`](Self::target) resolved to `location`.
    pub(crate) fn allows_change(&self, location: PathLocation, path: &str, final_symlink: FinalSymlink) -> bool {
        if self.guarded.contains(location.fd) {
            return false;
        }
        match location.mount.and_then(|index| self.guards[index].as_ref()) {
            Some(guard) => guard.allows(path, final_symlink),
            None => true,
        }
    }

    /// Returns true if a descriptor was opened below a guarded mount and its file must not be changed.
    pub(crate) fn guards(&self, fd: i32) -> bool {
        self.guarded.contains(fd)
    }

    /// Registers a directory or a protected file that the guest opened at `location`.
    pub(crate) fn record_open(&mut self, fd: i32, location: PathLocation) {
        let below_guarded = self.guarded.contains(location.fd);
        if below_guarded || location.mount.is_some_and(|index| self.guards[index].is_some()) {
            self.guarded.record_open(fd);
        }
    }

    /// Removes a descriptor that the guest closed.
    pub(crate) fn record_close(&mut self, fd: i32) {
        self.guarded.record_close(fd);
    }

    /// Resolves a path relative to `fd`. Only paths relative to the root are redirected.
    pub(crate) fn target(&self, fd: i32, path: &str) -> Target {
        let mounted = |index: usize, skip| PathLocation { fd: ROOT_FD + 1 + index as i32, skip, mount: Some(index) };
        if fd == ROOT_FD {
            match (resolve(&self.prefixes, path), &self.default) {
                // The last prefix is that of the virtual devices.
                (Prefix::Found { index, rest }, _) if index == self.guards.len() => {
                    return Target::Devices { skip: rest };
                }
                (Prefix::Found { index, rest }, _) => return Target::Files(mounted(index, rest)),
                (Prefix::Root, Some(default)) if !path.is_empty() => {
                    // Other mounts can be below it. A path that leaves it lexically leads to no mount.
                    if let Prefix::Found { index, rest } = resolve(&self.prefixes, &format!("{default}/{path}"))
                        && index < self.guards.len()
                        && let Some(skip) = rest.checked_sub(default.len() + 1)
                    {
                        return Target::Files(mounted(index, skip));
                    }
                }
                (Prefix::Root, _) => {}
            }
        }
        Target::Files(PathLocation { fd, skip: 0, mount: None })
    }
}
