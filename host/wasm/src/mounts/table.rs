//! The mounts of one guest, with the descriptors behind them.

use codebox_core::path::MappedPath;
use codebox_core::{Access, GuestPath};

use crate::devices;
use crate::mounts::guard::{Guard, GuardedFds, Last};
use crate::mounts::resolve::{Prefix, resolve};

/// The descriptor of `/`, the one directory that a guest knows of.
pub(crate) const ROOT_FD: i32 = 3;

/// A directory of the host at a place in the guest's paths.
#[derive(Debug, Clone)]
pub(crate) struct Mount {
    /// Where the guest finds it.
    pub guest: GuestPath,
    /// A path that leads the host to it, resolved once and for all before the guest starts.
    pub host: std::path::PathBuf,
    pub access: Access,
}

/// Maps the guest's paths to descriptors.
#[derive(Debug, Default)]
pub(crate) struct MountTable {
    /// The mounts' places, then that of the virtual devices.
    prefixes: Vec<Vec<String>>,
    guards: Vec<Option<Guard>>,
    guarded: GuardedFds,
}

/// A path argument after redirection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The descriptor that the path is relative to.
    pub fd: i32,
    /// Bytes of the path to skip.
    pub skip: usize,
    /// The mount that the path leads into.
    pub mount: Option<usize>,
}

/// Where a path leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// To a file on a disk, as far as there is one.
    Files(Place),
    /// To the virtual devices, with the path's bytes from this offset on.
    Devices { skip: usize },
}

impl MountTable {
    /// A table of these mounts, whose descriptors follow the root's in the same order.
    ///
    /// # Errors
    /// The system's, when a directory that has to be guarded cannot be opened.
    pub(crate) fn new(mounts: &[Mount]) -> std::io::Result<Self> {
        let mut prefixes: Vec<Vec<String>> =
            mounts.iter().map(|mount| mount.guest.components().map(str::to_owned).collect()).collect();
        prefixes.push(vec![devices::DIRECTORY.to_owned()]);
        let guards = mounts.iter().map(|mount| Guard::of(mount, mounts)).collect::<Result<_, _>>()?;
        Ok(Self { prefixes, guards, guarded: GuardedFds::default() })
    }

    /// Whether a change may be made at `path`, which [`target`](Self::target) found to lead to `place`.
    pub(crate) fn allows_change(&self, place: Place, path: &str, last: Last) -> bool {
        if self.guarded.contains(place.fd) {
            return false;
        }
        match place.mount.and_then(|index| self.guards[index].as_ref()) {
            Some(guard) => guard.allows(path, last),
            None => true,
        }
    }

    /// Whether what a descriptor names was opened below a guarded mount without a look at whether it may be changed.
    pub(crate) fn guards(&self, fd: i32) -> bool {
        self.guarded.contains(fd)
    }

    /// Hears of a directory that the guest opened, found at `place`.
    pub(crate) fn opened_directory(&mut self, fd: i32, place: Place) {
        let below_guarded = self.guarded.contains(place.fd);
        if below_guarded || place.mount.is_some_and(|index| self.guards[index].is_some()) {
            self.guarded.opened(fd);
        }
    }

    /// Hears of a descriptor that the guest closed.
    pub(crate) fn closed(&mut self, fd: i32) {
        self.guarded.closed(fd);
    }

    /// Where a path relative to `fd` leads; only paths relative to the root are redirected.
    pub(crate) fn target(&self, fd: i32, path: &str) -> Target {
        if fd == ROOT_FD
            && let Prefix::Found { index, rest } = resolve(&self.prefixes, path)
        {
            // The last prefix is no mount's.
            if index == self.guards.len() {
                return Target::Devices { skip: rest };
            }
            return Target::Files(Place { fd: ROOT_FD + 1 + index as i32, skip: rest, mount: Some(index) });
        }
        Target::Files(Place { fd, skip: 0, mount: None })
    }
}
