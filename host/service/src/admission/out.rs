//! Host directory that the guest's files are copied to.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use codebox_core::path::forbidden_grant_among;
use codebox_core::{Access, HostPath, ResultKind};
use codebox_files::is_git_name;

use super::denied::Denied;
use super::dirs::{check_writable, with_canonical};
use super::host_environment::{HostEnvironment, absolute};
use super::links;
use super::policy::{LinkPolicy, Policy};

/// Creates the directory if it is missing, and checks it by the rules of grants, because the guest chooses the file
/// names in it.
pub(super) fn admit(path: &Path, policy: &Policy, host_environment: &dyn HostEnvironment) -> Result<HostPath, Denied> {
    let shown = path.display().to_string();
    let fail = |error: io::Error| rejected(&shown, error.to_string(), "use another directory");
    let typed = absolute(path, host_environment).map_err(fail)?;
    if policy.links == LinkPolicy::Refuse
        && let Some(link) = links::below_working_directory(&typed, host_environment).map_err(fail)?
    {
        let fix = format!("if this is intended, pass the real directory: {}", link.target.display());
        return Err(rejected(&shown, link.reason(), &fix));
    }
    let (existing, missing) = split(&typed).map_err(fail)?;
    if !fs::metadata(&existing).map_err(fail)?.is_dir() {
        return Err(rejected(&shown, "it is not a directory", "pass a directory"));
    }
    let place = existing.join(missing);
    if place.iter().any(|name| is_git_name(&name.to_string_lossy())) {
        let why = "it is in a .git directory, whose configuration can run programs";
        return Err(rejected(&shown, why, "use a separate directory, such as ./out"));
    }
    let host = HostPath::native(&place).map_err(|error| rejected(&shown, error.rule, "use another directory"))?;
    if let Some(forbidden) = forbidden_grant_among(&host, Access::ReadWrite, &with_canonical(&policy.protected)) {
        return Err(rejected(&shown, forbidden.reason, "use a separate directory, such as ./out"));
    }
    fs::create_dir_all(&place).map_err(fail)?;
    check_writable(&place).map_err(fail)?;
    Ok(host)
}

/// Splits a path into its deepest existing part, free of links, and the missing rest.
fn split(path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    for above in path.ancestors() {
        match above.canonicalize() {
            Ok(existing) => {
                let missing = path.strip_prefix(above).unwrap_or(Path::new(""));
                if missing.components().any(|c| !matches!(c, Component::Normal(_))) {
                    let why = "it has '..' after a directory that does not exist";
                    return Err(io::Error::new(io::ErrorKind::NotFound, why));
                }
                return Ok((existing, missing.to_owned()));
            }
            // A dangling link exists as well, and creating its target would follow the link.
            Err(error) if error.kind() == io::ErrorKind::NotFound && above.is_symlink() => {
                return Err(io::Error::new(error.kind(), "it is a dangling symbolic link"));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

fn rejected(shown: &str, detail: impl Into<String>, fix: &str) -> Denied {
    Denied::new(ResultKind::PathRejected, "copy files to", shown, detail, fix)
}
