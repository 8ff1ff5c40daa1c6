use thiserror::Error;

use super::dir_grant::{Access, DirGrant};
use super::guest::GuestPath;
use super::host::HostPath;
use super::kind::{MappedPath, PathError};

/// Outside directory that appears as an inside directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount<A, B> {
    /// Directory outside.
    pub from: A,
    /// Directory inside.
    pub to: B,
    /// Access through this mount.
    pub access: Access,
}

/// Two-way map between outside paths and inside paths, without file system access.
///
/// An inside path maps through the mount with the longest matching prefix of whole components, as an operating system
/// resolves mounts. An outside path maps through the longest matching mount that is not hidden by another one, so that
/// `to_host(to_guest(p))` always returns `p` (on Windows, except for the case of the mount's own part). A path under no
/// mount is [`NotMapped`]; no path is ever passed through unchanged.
///
/// ```
/// use codebox_core::path::{GuestPath, HostPath, Mount, PathMap};
/// use codebox_core::Access;
///
/// let (ws, work) = (HostPath::unix("/home/me/ws")?, GuestPath::work());
/// let map = PathMap::new([Mount { from: ws, to: work, access: Access::ReadWrite }])?;
/// let inside = map.to_guest(&HostPath::unix("/home/me/ws/a.txt")?)?;
/// assert_eq!(inside.as_str(), "/work/a.txt");
/// assert!(map.to_guest(&HostPath::unix("/home/me/ws-evil/a.txt")?).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathMap<A, B> {
    /// Mounts in the given order, which decides between several mounts of one directory.
    pub(super) mounts: Vec<Mount<A, B>>,
    /// Inside paths that are covered by something other than a mount, such as a private directory.
    pub(super) masked: Vec<B>,
    /// Other names of outside directories, each with the directory.
    pub(super) names: Vec<(A, A)>,
}

/// Error for a set of mounts that does not form a map.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PathMapError {
    /// Two mounts, or a mount and a private path, at one inside path.
    #[error("{at} is mounted twice")]
    DuplicateMountPoint {
        /// The inside path.
        at: String,
    },
    /// One outside directory, writable through one mount and read-only through another.
    #[error("{from} is mounted both read-only and writable, at {one} and {other}")]
    ConflictingAccess {
        /// The outside directory.
        from: String,
        /// The first inside path.
        one: String,
        /// The second inside path.
        other: String,
    },
}

/// Error for a path that a map does not cover.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotMapped {
    /// A path that is under no mount.
    #[error("{path} is not under any mounted directory")]
    Outside {
        /// The path.
        path: String,
    },
    /// A path that is under a mount, at a place that another mount covers.
    #[error("{path} is hidden by the mount at {at}")]
    Hidden {
        /// The path.
        path: String,
        /// The covered inside path.
        at: String,
    },
    /// A path whose name is invalid on the other side.
    #[error("{path} cannot be mapped: {rule}")]
    InvalidName {
        /// The path.
        path: String,
        /// Rule of the other side that the name violates.
        rule: &'static str,
    },
}

pub(super) enum Resolution<'a, A, B> {
    Mounted(&'a Mount<A, B>),
    Masked,
    Unmapped,
}

impl<A: MappedPath, B: MappedPath> PathMap<A, B> {
    /// Creates a map of these mounts.
    ///
    /// # Errors
    /// Returns an error if two mounts share an inside path, or if one outside directory is mounted with different
    /// access.
    pub fn new(mounts: impl IntoIterator<Item = Mount<A, B>>) -> Result<Self, PathMapError> {
        Self::with_private(mounts, [])
    }

    /// Creates a map of these mounts in which other directories cover the `private` inside paths.
    ///
    /// A path under a private path is not mapped, even if a mount lies above it: with `/` granted and `/work` private,
    /// `/work/x` has no counterpart outside.
    ///
    /// # Errors
    /// Returns an error as [`PathMap::new`] does, or if two private paths, or a mount and a private path, are the same.
    pub fn with_private(
        mounts: impl IntoIterator<Item = Mount<A, B>>,
        private: impl IntoIterator<Item = B>,
    ) -> Result<Self, PathMapError> {
        let map =
            Self { mounts: mounts.into_iter().collect(), masked: private.into_iter().collect(), names: Vec::new() };
        let places: Vec<&B> = map.mounts.iter().map(|m| &m.to).chain(&map.masked).collect();
        for (index, place) in places.iter().enumerate() {
            if places[..index].iter().any(|earlier| earlier.is_equivalent(place)) {
                return Err(PathMapError::DuplicateMountPoint { at: place.to_string() });
            }
        }
        for (index, mount) in map.mounts.iter().enumerate() {
            let clash =
                |earlier: &&Mount<A, B>| earlier.from.is_equivalent(&mount.from) && earlier.access != mount.access;
            if let Some(earlier) = map.mounts[..index].iter().find(clash) {
                return Err(PathMapError::ConflictingAccess {
                    from: mount.from.to_string(),
                    one: earlier.to.to_string(),
                    other: mount.to.to_string(),
                });
            }
        }
        Ok(map)
    }

    /// Adds another name of an outside directory, such as one that goes through a link. A path below it is mapped to the inside as one below
    /// the directory; no path is mapped back to it.
    #[must_use]
    pub fn with_name(mut self, name: A, directory: A) -> Self {
        self.names.push((name, directory));
        self
    }

    /// Returns the mounts in the given order.
    #[must_use]
    pub fn mounts(&self) -> &[Mount<A, B>] {
        &self.mounts
    }

    /// Maps an outside path to the inside path at which it appears.
    ///
    /// # Errors
    /// Returns an error if the path does not appear inside.
    pub fn to_guest(&self, outside: &A) -> Result<B, NotMapped> {
        let rest = |directory: &A| outside.rest_below(directory).map(str::len);
        let by_name = self.names.iter().filter_map(|name| Some((rest(&name.0)?, name))).min_by_key(|(rest, _)| *rest);
        match by_name {
            // The deepest directory counts, also if its name goes through a link in another one.
            Some((length, (name, directory)))
                if self.mounts.iter().filter_map(|mount| rest(&mount.from)).all(|other| length < other) =>
            {
                self.to_guest_by_mounts(&rebase(outside, name, directory)?)
            }
            _ => self.to_guest_by_mounts(outside),
        }
    }

    fn to_guest_by_mounts(&self, outside: &A) -> Result<B, NotMapped> {
        // The deepest directory has the shortest rest. Of several mounts of one directory, the first given one comes first.
        let candidate = |(index, mount): (usize, &Mount<A, B>)| Some((outside.rest_below(&mount.from)?.len(), index));
        let candidates = || self.mounts.iter().enumerate().filter_map(candidate);
        let mut refusal = None;
        let mut tried = None;
        while let Some(next) = candidates().filter(|candidate| tried < Some(*candidate)).min() {
            let mount = &self.mounts[next.1];
            match rebase(outside, &mount.from, &mount.to) {
                Ok(inside) if self.is_visible_through(&inside, mount) => return Ok(inside),
                Ok(inside) => {
                    refusal = Some(NotMapped::Hidden { path: outside.to_string(), at: inside.to_string() });
                }
                Err(invalid) => refusal = Some(invalid),
            }
            tried = Some(next);
        }
        Err(refusal.unwrap_or_else(|| NotMapped::Outside { path: outside.to_string() }))
    }

    /// Maps an inside path to its outside path.
    ///
    /// # Errors
    /// Returns an error if the path has no counterpart outside.
    pub fn to_host(&self, inside: &B) -> Result<A, NotMapped> {
        match self.resolve(inside) {
            Resolution::Mounted(mount) => rebase(inside, &mount.to, &mount.from),
            Resolution::Masked | Resolution::Unmapped => Err(NotMapped::Outside { path: inside.to_string() }),
        }
    }

    /// Returns the mount that contains an inside path.
    #[must_use]
    pub fn mount_of(&self, inside: &B) -> Option<&Mount<A, B>> {
        match self.resolve(inside) {
            Resolution::Mounted(mount) => Some(mount),
            Resolution::Masked | Resolution::Unmapped => None,
        }
    }

    /// Returns true if `mount` is visible at `inside`, and no other mount covers it there.
    pub(super) fn is_visible_through(&self, inside: &B, mount: &Mount<A, B>) -> bool {
        matches!(self.resolve(inside), Resolution::Mounted(resolved) if std::ptr::eq(resolved, mount))
    }

    pub(super) fn resolve(&self, inside: &B) -> Resolution<'_, A, B> {
        // The deepest place has the shortest rest.
        let rest = |place: &B| inside.rest_below(place).map(str::len);
        let mount =
            self.mounts.iter().filter_map(|mount| Some((rest(&mount.to)?, mount))).min_by_key(|(rest, _)| *rest);
        let masked = self.masked.iter().filter_map(rest).min();
        match (mount, masked) {
            (Some((rest, mount)), masked) if masked.is_none_or(|masked| masked > rest) => Resolution::Mounted(mount),
            (None, None) => Resolution::Unmapped,
            _ => Resolution::Masked,
        }
    }
}

impl PathMap<HostPath, GuestPath> {
    /// Creates the map of a set of directory grants.
    ///
    /// # Errors
    /// Returns an error as [`PathMap::new`] does.
    pub fn from_grants(dirs: &[DirGrant]) -> Result<Self, PathMapError> {
        Self::new(dirs.iter().map(|DirGrant { host, guest, access }| Mount {
            from: host.clone(),
            to: guest.clone(),
            access: *access,
        }))
    }
}

/// Replaces the prefix `old` of `path` with `new`.
pub(super) fn rebase<P: MappedPath, Q: MappedPath>(path: &P, old: &P, new: &Q) -> Result<Q, NotMapped> {
    let outside = || NotMapped::Outside { path: path.to_string() };
    let rest = path.rest_below(old).ok_or_else(outside)?;
    if path.is_posix() && new.is_posix() {
        return Ok(new.with_posix_rest(rest));
    }
    let invalid = |fault: PathError| NotMapped::InvalidName { path: path.to_string(), rule: fault.rule };
    new.descend(rest.split(path.separator()).filter(|part| !part.is_empty())).map_err(invalid)
}

#[cfg(test)]
mod tests;
