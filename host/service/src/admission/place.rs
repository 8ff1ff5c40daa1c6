//! Guest path of the script.

use std::path::Path;

use codebox_core::path::{MappedPath as _, PathMap};
use codebox_core::{GuestPath, HostPath, InputFile, ResultKind, Source};

use super::denied::Denied;
use super::project::{Project, leads_out};
use super::script::Script;

/// Read-only guest directory of a script that is not in a granted directory.
///
/// The script is not placed in the working directory: a program that lists `/work` finds only its own files, like a
/// native program that is started in an empty directory.
pub(super) const SCRIPT_DIR: &str = "/run/codebox";

/// Returns the script as a job's source, and the file to place in the guest if no grant contains the script.
///
/// A script in a granted directory or in the project keeps its mapped path, unless another mount hides it there. Any other script is placed in [`SCRIPT_DIR`].
pub(super) fn place(
    script: Script,
    map: &PathMap<HostPath, GuestPath>,
    hidden: &[GuestPath],
    project: Option<&Project>,
) -> Result<(Source, Option<InputFile>), Denied> {
    let Script { typed, place, canonical, text, is_regular: _, language: _ } = script;
    let host = canonical.as_deref().and_then(|path| HostPath::native(path).ok());
    let mapped = host.and_then(|host| map.to_guest(&host).ok());
    if let Some(name) = mapped.filter(|name| !hidden.iter().any(|place| name.is_within(place))) {
        let source = Source::File { argv0: typed, name, text };
        return Ok((source, None));
    }
    let of_project = canonical.as_deref().and_then(|path| project?.guest_path(path));
    if of_project.is_none() && project.is_some_and(|project| leads_out(&project.host.to_path_buf(), &place)) {
        let detail = "a link leads out of the project, whose copy has no links";
        return Err(Denied::new(ResultKind::PathRejected, "run", typed, detail, "name the file that it leads to"));
    }
    if of_project.as_ref().is_some_and(|name| map.to_host(name).is_ok()) {
        let fix = "grant the directory at another path, or run the file in it";
        let detail = "a granted directory is at its place in the project";
        return Err(Denied::new(ResultKind::PathRejected, "run", typed, detail, fix));
    }
    let name = of_project.map_or_else(|| free_place(&typed), Ok)?;
    let file = InputFile::new(name.clone(), text.clone());
    let source = Source::File { argv0: typed, name, text };
    Ok((source, Some(file)))
}

fn free_place(typed: &str) -> Result<GuestPath, Denied> {
    let base = Path::new(typed).file_name().and_then(|name| name.to_str()).unwrap_or("script");
    GuestPath::new(SCRIPT_DIR).and_then(|dir| dir.child(base)).map_err(|error| {
        let detail = format!("its name cannot be used: {}", error.rule);
        Denied::new(ResultKind::InvalidRequest, "run", typed, detail, "rename it")
    })
}
