use thiserror::Error;

use super::guest::GuestPath;
use super::host::{HostPath, Style};
use super::kind::MappedPath;
use crate::grants::{Access, DirGrant};

/// Why a directory may not be granted at all.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot grant {path}: {reason}")]
pub struct ForbiddenGrant {
    /// The directory.
    pub path: HostPath,
    /// What it is or holds.
    pub reason: String,
}

/// How far a protected directory's protection reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// It and what holds it; directories below may be granted. For a home directory.
    Itself,
    /// It, what holds it and everything below. For codebox's own state and an engine's socket.
    Subtree,
}

/// A directory of this machine that no grant may expose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protected {
    /// The directory.
    pub path: HostPath,
    /// How far the protection reaches.
    pub reach: Reach,
    /// What it is, for the message: "your home directory".
    pub what: String,
}

const ROOT: &str = "it is the root of a file system; grant a folder inside it";
const KERNEL: &str = "it belongs to the operating system's kernel";
const SYSTEM: &str = "it is a system directory; grant a folder inside it";

const UNIX: [(&str, Reach, &str); 14] = [
    ("/proc", Reach::Subtree, KERNEL),
    ("/sys", Reach::Subtree, KERNEL),
    ("/boot", Reach::Subtree, KERNEL),
    ("/run/docker", Reach::Subtree, "it belongs to a container engine"),
    ("/run/podman", Reach::Subtree, "it belongs to a container engine"),
    ("/run/containerd", Reach::Subtree, "it belongs to a container engine"),
    ("/var/lib/docker", Reach::Subtree, "it belongs to a container engine"),
    ("/var/lib/containers", Reach::Subtree, "it belongs to a container engine"),
    ("/var/lib/containerd", Reach::Subtree, "it belongs to a container engine"),
    ("/etc", Reach::Itself, SYSTEM),
    ("/var/run", Reach::Itself, SYSTEM),
    ("/home", Reach::Itself, SYSTEM),
    ("/Users", Reach::Itself, SYSTEM),
    ("/System", Reach::Subtree, SYSTEM),
];

/// Whether `path` may never be granted, on any machine; a check of its name alone.
#[must_use]
pub fn forbidden_grant(path: &HostPath) -> Option<ForbiddenGrant> {
    let forbid = |reason: &str| Some(ForbiddenGrant { path: path.clone(), reason: reason.to_owned() });
    if path.is_root() {
        return forbid(ROOT);
    }
    let names: Vec<String> = match path.style() {
        Style::Unix => path.components().map(str::to_owned).collect(),
        Style::Windows => path.components().map(str::to_uppercase).collect(),
    };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match (path.style(), names.as_slice()) {
        // Shared memory is a plain directory below /dev, and the only one.
        (Style::Unix, ["dev", "shm", _, ..]) => None,
        (Style::Unix, ["dev", ..]) => forbid(KERNEL),
        (Style::Unix, ["run", "user", _, "docker" | "podman" | "containerd" | "bus", ..]) => {
            forbid("it belongs to a container engine or the session")
        }
        (Style::Unix, ["run", "user", _] | ["var" | "run"] | ["run", "user"]) => forbid(SYSTEM),
        (Style::Unix, _) => UNIX.iter().find_map(|(place, reach, why)| {
            let place = HostPath::unix(place).ok()?;
            exposes(path, &place, *reach).then(|| forbid(why)).flatten()
        }),
        (Style::Windows, ["WINDOWS", ..] | ["USERS" | "PROGRAM FILES" | "PROGRAMDATA"]) => forbid(SYSTEM),
        (Style::Windows, _) => None,
    }
}

/// As [`forbidden_grant`], and also refuses what would expose a directory of `protected`.
#[must_use]
pub fn forbidden_grant_among(path: &HostPath, protected: &[Protected]) -> Option<ForbiddenGrant> {
    forbidden_grant(path).or_else(|| {
        let hit = protected.iter().find(|p| exposes(path, &p.path, p.reach))?;
        let reason = if path.same_place(&hit.path) {
            format!("it is {}", hit.what)
        } else if path.is_within(&hit.path) {
            format!("it is inside {}", hit.what)
        } else {
            format!("it holds {}", hit.what)
        };
        Some(ForbiddenGrant { path: path.clone(), reason })
    })
}

fn exposes(granted: &HostPath, protected: &HostPath, reach: Reach) -> bool {
    let holds = protected.is_within(granted);
    holds || (reach == Reach::Subtree && granted.is_within(protected))
}

/// Why a set of directory grants contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OverlapError {
    /// One directory granted twice.
    #[error("{host} is granted twice, at {one} and {other}")]
    SameDirectory {
        /// The directory.
        host: HostPath,
        /// Where it appears first.
        one: GuestPath,
        /// Where it appears again.
        other: GuestPath,
    },
    /// Two directories at one guest path.
    #[error("{guest} is granted twice, for {one} and {other}")]
    SamePlace {
        /// The guest path.
        guest: GuestPath,
        /// The first directory.
        one: HostPath,
        /// The second.
        other: HostPath,
    },
}

/// The mounts that a set of grants comes to once overlaps are settled: the stricter grant wins.
///
/// If a writable grant holds a directory that is also granted read-only (`.` at `/work`, writable, and
/// `./data` at `/data`, read-only), the directory is read-only under every name: the answer has one more mount
/// that covers it inside the wider grant (`./data` at `/work/data`, read-only). A writable directory
/// inside a read-only grant is what it says: writable at its own place, read-only through the wider one.
///
/// # Errors
/// When one directory is granted twice, or two at one guest path.
pub fn settle(grants: &[DirGrant]) -> Result<Vec<DirGrant>, OverlapError> {
    for (index, grant) in grants.iter().enumerate() {
        for earlier in &grants[..index] {
            if earlier.guest == grant.guest {
                return Err(OverlapError::SamePlace {
                    guest: grant.guest.clone(),
                    one: earlier.host.clone(),
                    other: grant.host.clone(),
                });
            }
            if earlier.host.same_place(&grant.host) {
                return Err(OverlapError::SameDirectory {
                    host: grant.host.clone(),
                    one: earlier.guest.clone(),
                    other: grant.guest.clone(),
                });
            }
        }
    }
    let mut settled = grants.to_vec();
    for wide in grants.iter().filter(|grant| grant.access == Access::ReadWrite) {
        for strict in grants.iter().filter(|grant| grant.access == Access::ReadOnly) {
            let Some(rest) = strict.host.below(&wide.host) else {
                continue;
            };
            // A host name that no guest path can have is not reachable through the wider grant either.
            let Ok(alias) = wide.guest.descend(rest) else {
                continue;
            };
            if seen_at(&settled, &alias) == Some(wide) {
                let (host, access) = (strict.host.clone(), Access::ReadOnly);
                settled.push(DirGrant { host, guest: alias, access });
            }
        }
    }
    Ok(settled)
}

/// The grant that the guest sees at `place`: the deepest mount that holds it.
fn seen_at<'a>(settled: &'a [DirGrant], place: &GuestPath) -> Option<&'a DirGrant> {
    settled.iter().filter(|grant| place.is_within(&grant.guest)).max_by_key(|grant| grant.guest.components().count())
}

#[cfg(test)]
mod tests;
