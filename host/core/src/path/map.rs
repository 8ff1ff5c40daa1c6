use thiserror::Error;

use super::guest::GuestPath;
use super::host::HostPath;
use super::kind::MappedPath;
use crate::grants::{Access, DirGrant};

/// A directory of one kind that appears as a directory of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount<A, B> {
    /// The directory outside.
    pub from: A,
    /// Where it appears inside.
    pub to: B,
    /// Whether it can be written through this mount.
    pub access: Access,
}

/// A two-way map between paths outside and paths inside: pure, and exact about what it does not cover.
///
/// Inside paths go out through the mount with the longest matching prefix, whole components at a time, as an
/// operating system resolves mounts. Outside paths come in through the longest matching mount that does not
/// lie hidden below another one, so that `to_host(to_guest(p))` is always `p` again (on Windows, but for the
/// case of the mount's own part). A path under no mount is [`NotMapped`]; nothing is ever passed through.
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
    /// In the order given, which settles ties between mounts of one directory.
    pub(super) mounts: Vec<Mount<A, B>>,
    /// Inside places that something other than a mount covers, such as a private directory.
    pub(super) holes: Vec<B>,
}

/// Why a set of mounts is no map.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PathMapError {
    /// Two mounts, or a mount and a private place, at one inside path.
    #[error("{at} is mounted twice")]
    SamePlace {
        /// The inside path.
        at: String,
    },
    /// One outside directory, writable through one mount and read-only through another.
    #[error("{from} is mounted both read-only and writable, at {one} and {other}")]
    ConflictingAccess {
        /// The outside directory.
        from: String,
        /// Where it appears first.
        one: String,
        /// Where it appears again.
        other: String,
    },
}

/// A path that a map does not cover.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotMapped {
    /// No mount holds it.
    #[error("{path} is not under any mounted directory")]
    Outside {
        /// The path.
        path: String,
    },
    /// A mount holds it, but another mount covers the place where it would appear.
    #[error("{path} is hidden behind what is mounted at {at}")]
    Hidden {
        /// The path.
        path: String,
        /// Where it would appear.
        at: String,
    },
    /// Its name cannot exist on the other side.
    #[error("{path} has no counterpart: {rule}")]
    NoSuchName {
        /// The path.
        path: String,
        /// The rule that its name breaks there.
        rule: &'static str,
    },
}

pub(super) enum Inside<'a, A, B> {
    Mounted(&'a Mount<A, B>),
    Hole,
    Nowhere,
}

impl<A: MappedPath, B: MappedPath> PathMap<A, B> {
    /// A map of these mounts.
    ///
    /// # Errors
    /// When two mounts share an inside path, or one outside directory is mounted with different access.
    pub fn new(mounts: impl IntoIterator<Item = Mount<A, B>>) -> Result<Self, PathMapError> {
        Self::with_private(mounts, [])
    }

    /// A map of these mounts where `private` inside places are covered by something else.
    ///
    /// What lies in a private place is not mapped, even if a mount lies above it: with `/` granted and
    /// `/work` private, `/work/x` is nobody's file outside.
    ///
    /// # Errors
    /// As [`PathMap::new`], and when a private place is a mount.
    pub fn with_private(
        mounts: impl IntoIterator<Item = Mount<A, B>>,
        private: impl IntoIterator<Item = B>,
    ) -> Result<Self, PathMapError> {
        let map = Self { mounts: mounts.into_iter().collect(), holes: private.into_iter().collect() };
        let places: Vec<&B> = map.mounts.iter().map(|m| &m.to).chain(&map.holes).collect();
        for (index, place) in places.iter().enumerate() {
            if places[..index].iter().any(|earlier| earlier.same_place(place)) {
                return Err(PathMapError::SamePlace { at: place.to_string() });
            }
        }
        for (index, mount) in map.mounts.iter().enumerate() {
            let clash = |earlier: &&Mount<A, B>| earlier.from.same_place(&mount.from) && earlier.access != mount.access;
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

    /// The mounts, in the order given.
    #[must_use]
    pub fn mounts(&self) -> &[Mount<A, B>] {
        &self.mounts
    }

    /// Where an outside path appears inside.
    ///
    /// # Errors
    /// When it appears nowhere.
    pub fn to_guest(&self, outside: &A) -> Result<B, NotMapped> {
        let mut candidates: Vec<&Mount<A, B>> =
            self.mounts.iter().filter(|mount| outside.is_within(&mount.from)).collect();
        // Stable, so that of several mounts of one directory the first given comes first.
        candidates.sort_by_key(|mount| std::cmp::Reverse(mount.from.components().count()));
        let mut refusal = NotMapped::Outside { path: outside.to_string() };
        for mount in candidates {
            match transplant(outside, &mount.from, &mount.to) {
                Ok(inside) if self.is_seen_through(&inside, mount) => return Ok(inside),
                Ok(inside) => {
                    refusal = NotMapped::Hidden { path: outside.to_string(), at: inside.to_string() };
                }
                Err(no_name) => refusal = no_name,
            }
        }
        Err(refusal)
    }

    /// What outside path an inside path stands for.
    ///
    /// # Errors
    /// When it stands for none.
    pub fn to_host(&self, inside: &B) -> Result<A, NotMapped> {
        match self.place_of(inside) {
            Inside::Mounted(mount) => transplant(inside, &mount.to, &mount.from),
            Inside::Hole | Inside::Nowhere => Err(NotMapped::Outside { path: inside.to_string() }),
        }
    }

    /// The mount that an inside path lies in.
    #[must_use]
    pub fn mount_of(&self, inside: &B) -> Option<&Mount<A, B>> {
        match self.place_of(inside) {
            Inside::Mounted(mount) => Some(mount),
            Inside::Hole | Inside::Nowhere => None,
        }
    }

    /// Whether what the inside sees at `inside` is `mount`, and nothing mounted over it.
    pub(super) fn is_seen_through(&self, inside: &B, mount: &Mount<A, B>) -> bool {
        matches!(self.place_of(inside), Inside::Mounted(seen) if std::ptr::eq(seen, mount))
    }

    pub(super) fn place_of(&self, inside: &B) -> Inside<'_, A, B> {
        let depth = |place: &B| inside.is_within(place).then(|| place.components().count());
        let mount =
            self.mounts.iter().filter_map(|mount| Some((depth(&mount.to)?, mount))).max_by_key(|(depth, _)| *depth);
        let hole = self.holes.iter().filter_map(depth).max();
        match (mount, hole) {
            (Some((depth, mount)), hole) if hole.is_none_or(|hole| hole < depth) => Inside::Mounted(mount),
            (None, None) => Inside::Nowhere,
            _ => Inside::Hole,
        }
    }
}

impl PathMap<HostPath, GuestPath> {
    /// The map that a set of directory grants makes.
    ///
    /// # Errors
    /// As [`PathMap::new`].
    pub fn of_grants(dirs: &[DirGrant]) -> Result<Self, PathMapError> {
        Self::new(dirs.iter().map(|DirGrant { host, guest, access }| Mount {
            from: host.clone(),
            to: guest.clone(),
            access: *access,
        }))
    }
}

/// Moves `path` from below `old` to below `new`.
pub(super) fn transplant<P: MappedPath, Q: MappedPath>(path: &P, old: &P, new: &Q) -> Result<Q, NotMapped> {
    let outside = || NotMapped::Outside { path: path.to_string() };
    let rest = path.below(old).ok_or_else(outside)?;
    new.descend(rest).map_err(|fault| NotMapped::NoSuchName { path: path.to_string(), rule: fault.rule })
}

#[cfg(test)]
mod tests;
