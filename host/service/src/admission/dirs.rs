//! Granted directories: resolved, checked, and free of links.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use codebox_core::path::{ProtectedDir, forbidden_grant_among};
use codebox_core::{Access, DirGrant, DirGrantSpec, HostPath, Language, ResultKind};

use super::denied::Denied;
use super::host_environment::{HostEnvironment, absolute};
use super::policy::{LinkPolicy, Policy};
use super::{links, mounts, reserved_paths};

/// Checks every grant by itself; the caller checks how they overlap.
pub(super) fn admit(
    specs: Vec<DirGrantSpec>,
    policy: &Policy,
    host_environment: &dyn HostEnvironment,
) -> Result<Vec<DirGrant>, Denied> {
    if specs.is_empty() {
        return Ok(Vec::new());
    }
    let protected = with_canonical(&policy.protected);
    let mount_points = host_environment.mount_points().map_err(|error| {
        let detail = format!("cannot read the mounts below it: {error}");
        rejected(&specs[0].host, detail, "make /proc readable for this user")
    })?;
    let admit = |spec: DirGrantSpec| {
        let host = place(&spec, &protected, policy.links, &mount_points, host_environment)?;
        Ok(spec.at(host))
    };
    specs.into_iter().map(admit).collect()
}

/// Adds the canonical paths of protected directories to the given ones, because a given path may contain a link.
pub(super) fn with_canonical(protected: &[ProtectedDir]) -> Vec<ProtectedDir> {
    let own = protected.iter().filter_map(|given| {
        let canonical = given.path.to_path_buf().canonicalize().ok()?;
        Some(ProtectedDir { path: HostPath::native(&canonical).ok()?, ..given.clone() })
    });
    protected.iter().cloned().chain(own).collect()
}

/// Returns the link-free path of a granted directory.
fn place(
    spec: &DirGrantSpec,
    protected: &[ProtectedDir],
    links: LinkPolicy,
    mount_points: &[PathBuf],
    host_environment: &dyn HostEnvironment,
) -> Result<HostPath, Denied> {
    let shown = spec.host.as_str();
    if let Some(reason) = reserved_paths::reserved_reason(&spec.guest) {
        return Err(taken(spec, reason));
    }
    let fail = |error| unusable(shown, &error);
    let typed = absolute(Path::new(shown), host_environment).map_err(fail)?;
    if links == LinkPolicy::Refuse
        && let Some(link) = links::below_working_directory(&typed, host_environment).map_err(fail)?
    {
        let fix = format!("if this is intended, pass the real directory: {}", link.target.display());
        return Err(rejected(shown, link.reason(), fix));
    }
    let canonical = typed.canonicalize().map_err(fail)?;
    if !fs::metadata(&canonical).map_err(fail)?.is_dir() {
        return Err(rejected(shown, "it is not a directory", "grant the directory that contains it"));
    }
    let host =
        HostPath::native(&canonical).map_err(|error| rejected(shown, error.rule, "rename it or grant a copy"))?;
    if let Some(forbidden) = forbidden_grant_among(&host, spec.access, protected) {
        return Err(rejected(shown, forbidden.reason, "grant another directory"));
    }
    if let Some(mount) = mounts::nested(&canonical, mount_points) {
        let mount = mount.display();
        return Err(rejected(
            shown,
            format!("another file system is mounted inside it, at {mount}"),
            format!("grant {mount} separately, or a directory without a mount inside"),
        ));
    }
    fs::read_dir(&canonical).map_err(fail)?;
    if spec.access == Access::ReadWrite {
        check_writable(&canonical).map_err(|error| {
            let detail = format!("it is not writable: {error}");
            rejected(shown, detail, format!("grant it read-only: {shown}:{}:ro", spec.guest))
        })?;
    }
    Ok(host)
}

/// Refuses a grant that would hide a job's packages, or be hidden by them.
pub(super) fn check_package_paths(specs: &[DirGrantSpec], language: &Language) -> Result<(), Denied> {
    let hit = specs.iter().find_map(|spec| Some((spec, reserved_paths::reserved_for_packages(&spec.guest, language)?)));
    hit.map_or(Ok(()), |(spec, reason)| Err(taken(spec, reason)))
}

fn taken(spec: &DirGrantSpec, reason: &str) -> Denied {
    rejected(&format!("{} at {}", spec.host, spec.guest), reason, "use another guest path, such as /data")
}

/// Checks that files can be created in a directory, as far as this is known without creating one.
#[cfg(unix)]
pub(super) fn check_writable(directory: &Path) -> io::Result<()> {
    use rustix::fs::{Access, access};
    Ok(access(directory, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Does nothing: outside Unix, only an attempt shows if files can be created in a directory.
#[cfg(not(unix))]
pub(super) fn check_writable(_directory: &Path) -> io::Result<()> {
    Ok(())
}

fn unusable(shown: &str, error: &io::Error) -> Denied {
    match error.kind() {
        io::ErrorKind::NotFound => rejected(shown, "no such directory", "create it or check the name"),
        io::ErrorKind::PermissionDenied => {
            rejected(shown, "permission denied", "make the directory readable for this user")
        }
        _ => rejected(shown, error.to_string(), "check the directory"),
    }
}

pub(super) fn rejected(shown: &str, detail: impl Into<String>, fix: impl Into<String>) -> Denied {
    Denied::new(ResultKind::PathRejected, "grant", shown, detail, fix)
}
