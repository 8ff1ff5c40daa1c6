use thiserror::Error;

use super::dir_grant::{Access, DirGrant};
use super::guest::GuestPath;
use super::host::{HostPath, Style};
use super::kind::MappedPath;

/// Error for a directory that may not be granted at all.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot grant {path}: {reason}")]
pub struct ForbiddenGrant {
    /// The directory.
    pub path: HostPath,
    /// Description of what the directory is or contains.
    pub reason: String,
}

/// Extent of a directory's protection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtectionScope {
    /// The directory and its ancestors, but not the directories below it; used for a home directory.
    Itself,
    /// The directory, its ancestors and everything below it; used for codebox's own state and an engine's socket.
    Subtree,
    /// As [`Subtree`](Self::Subtree), against writable grants alone; used for codebox's programs and their files.
    Writes,
}

/// Directory or file of this machine that no grant may expose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedDir {
    /// The directory or file.
    pub path: HostPath,
    /// Extent of the protection.
    pub scope: ProtectionScope,
    /// Description for the message, such as "your home directory".
    pub what: String,
}

const ROOT: &str = "it is the root of a file system; grant a directory inside it";
const KERNEL: &str = "it belongs to the operating system's kernel";
const SYSTEM: &str = "it is a system directory; grant a directory inside it";

const PROTECTED_UNIX_DIRS: [(&str, ProtectionScope, &str); 14] = [
    ("/proc", ProtectionScope::Subtree, KERNEL),
    ("/sys", ProtectionScope::Subtree, KERNEL),
    ("/boot", ProtectionScope::Subtree, KERNEL),
    ("/run/docker", ProtectionScope::Subtree, "it belongs to a container engine"),
    ("/run/podman", ProtectionScope::Subtree, "it belongs to a container engine"),
    ("/run/containerd", ProtectionScope::Subtree, "it belongs to a container engine"),
    ("/var/lib/docker", ProtectionScope::Subtree, "it belongs to a container engine"),
    ("/var/lib/containers", ProtectionScope::Subtree, "it belongs to a container engine"),
    ("/var/lib/containerd", ProtectionScope::Subtree, "it belongs to a container engine"),
    ("/etc", ProtectionScope::Itself, SYSTEM),
    ("/var/run", ProtectionScope::Itself, SYSTEM),
    ("/home", ProtectionScope::Itself, SYSTEM),
    ("/Users", ProtectionScope::Itself, SYSTEM),
    ("/System", ProtectionScope::Subtree, SYSTEM),
];

/// Returns an error if `path` may never be granted on any machine; checks only the name.
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
        // Shared memory is the only part of /dev that contains ordinary directories.
        (Style::Unix, ["dev", "shm", _, ..]) => None,
        (Style::Unix, ["dev", ..]) => forbid(KERNEL),
        (Style::Unix, ["run", "user", _, "docker" | "podman" | "containerd" | "bus", ..]) => {
            forbid("it belongs to a container engine or the session")
        }
        (Style::Unix, ["run", "user", _] | ["var" | "run"] | ["run", "user"]) => forbid(SYSTEM),
        (Style::Unix, _) => PROTECTED_UNIX_DIRS.iter().find_map(|(place, scope, why)| {
            let place = HostPath::unix(place).ok()?;
            exposes(path, Access::ReadWrite, &place, *scope).then(|| forbid(why)).flatten()
        }),
        (Style::Windows, ["WINDOWS", ..] | ["USERS" | "PROGRAM FILES" | "PROGRAMDATA"]) => forbid(SYSTEM),
        (Style::Windows, _) => None,
    }
}

/// Returns an error as [`forbidden_grant`] does, or if granting this access to `path` would expose a directory of `protected`.
#[must_use]
pub fn forbidden_grant_among(path: &HostPath, access: Access, protected: &[ProtectedDir]) -> Option<ForbiddenGrant> {
    forbidden_grant(path).or_else(|| {
        let hit = protected.iter().find(|p| exposes(path, access, &p.path, p.scope))?;
        let reason = if path.is_equivalent(&hit.path) {
            format!("it is {}", hit.what)
        } else if path.is_within(&hit.path) {
            format!("it is inside {}", hit.what)
        } else {
            format!("it contains {}", hit.what)
        };
        Some(ForbiddenGrant { path: path.clone(), reason })
    })
}

fn exposes(granted: &HostPath, access: Access, protected: &HostPath, scope: ProtectionScope) -> bool {
    let holds = protected.is_within(granted);
    let is_inside = granted.is_within(protected);
    match scope {
        ProtectionScope::Itself => holds,
        ProtectionScope::Subtree => holds || is_inside,
        ProtectionScope::Writes => access == Access::ReadWrite && (holds || is_inside),
    }
}

/// Error for a set of directory grants that contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OverlapError {
    /// One directory granted twice.
    #[error("{host} is granted twice, at {one} and {other}")]
    DuplicateDirectory {
        /// The directory.
        host: HostPath,
        /// The first guest path.
        one: GuestPath,
        /// The second guest path.
        other: GuestPath,
    },
    /// Two directories at one guest path.
    #[error("{guest} is granted twice, for {one} and {other}")]
    DuplicateMountPoint {
        /// The guest path.
        guest: GuestPath,
        /// The first directory.
        one: HostPath,
        /// The second directory.
        other: HostPath,
    },
}

/// Resolves overlaps in a set of grants and returns the resulting mounts; the stricter grant wins.
///
/// If a writable grant contains a directory that is also granted read-only (`.` at `/work`, writable, and `./data` at
/// `/data`, read-only), the directory is read-only under every name: the result has one more mount that covers the
/// directory inside the wider grant (`./data` at `/work/data`, read-only). A writable directory inside a read-only
/// grant is writable at its own guest path and read-only through the wider grant.
///
/// # Errors
/// Returns an error if one directory is granted twice, or if two directories are granted at one guest path.
pub fn resolve_overlaps(grants: &[DirGrant]) -> Result<Vec<DirGrant>, OverlapError> {
    for (index, grant) in grants.iter().enumerate() {
        for earlier in &grants[..index] {
            if earlier.guest == grant.guest {
                return Err(OverlapError::DuplicateMountPoint {
                    guest: grant.guest.clone(),
                    one: earlier.host.clone(),
                    other: grant.host.clone(),
                });
            }
            if earlier.host.is_equivalent(&grant.host) {
                return Err(OverlapError::DuplicateDirectory {
                    host: grant.host.clone(),
                    one: earlier.guest.clone(),
                    other: grant.guest.clone(),
                });
            }
        }
    }
    let mut resolved = grants.to_vec();
    for wide in grants.iter().filter(|grant| grant.access == Access::ReadWrite) {
        for strict in grants.iter().filter(|grant| grant.access == Access::ReadOnly) {
            let Some(rest) = strict.host.below(&wide.host) else {
                continue;
            };
            // A directory with a name that is invalid in guest paths is not reachable through the wider grant either.
            let Ok(alias) = wide.guest.descend(rest) else {
                continue;
            };
            if visible_grant(&resolved, &alias) == Some(wide) {
                let (host, access) = (strict.host.clone(), Access::ReadOnly);
                resolved.push(DirGrant { host, guest: alias, access });
            }
        }
    }
    Ok(resolved)
}

/// Returns the grant that the guest sees at `place`: the deepest mount that contains it.
fn visible_grant<'a>(resolved: &'a [DirGrant], place: &GuestPath) -> Option<&'a DirGrant> {
    resolved.iter().filter(|grant| place.is_within(&grant.guest)).max_by_key(|grant| grant.guest.components().count())
}

#[cfg(test)]
mod tests;
