//! Where the script stands in the guest.

use std::path::Path;

use codebox_core::path::{MappedPath as _, PathMap};
use codebox_core::{DirGrant, GuestPath, HostPath, InputFile, ResultKind, Source};

use super::denied::Denied;
use super::script::Script;

/// The read-only guest directory of a script that lies in no grant while `/work` is granted.
pub const SCRIPT_DIR: &str = "/run/codebox";

/// The script as a job's source, and the file to put in if no grant already shows it.
///
/// In a granted directory the script is at its mapped place. Otherwise it goes into the private `/work`; and if
/// `/work` is a granted directory, where codebox puts nothing, to [`SCRIPT_DIR`].
pub(super) fn place(
    script: Script,
    dirs: &[DirGrant],
    map: &PathMap<HostPath, GuestPath>,
) -> Result<(Source, Option<InputFile>), Denied> {
    let Script { typed, canonical, text, language: _ } = script;
    let host = canonical.as_deref().and_then(|path| HostPath::native(path).ok());
    if let Some(name) = host.and_then(|host| map.to_guest(&host).ok()) {
        let source = Source::File { argv0: typed, name, text };
        return Ok((source, None));
    }
    let name = free_place(&typed, dirs)?;
    let file = InputFile { path: name.clone(), content: text.clone() };
    let source = Source::File { argv0: typed, name, text };
    Ok((source, Some(file)))
}

fn free_place(typed: &str, dirs: &[DirGrant]) -> Result<GuestPath, Denied> {
    let base = Path::new(typed).file_name().and_then(|name| name.to_str()).unwrap_or("script");
    let refused = |rule: &str| {
        let kind = ResultKind::InvalidRequest;
        Denied::new(kind, ("run", typed), format!("its name cannot be used: {rule}"), "rename it")
    };
    let work = GuestPath::work();
    let in_work = work.child(base).map_err(|error| refused(error.rule))?;
    let covered = |dir: &DirGrant| dir.guest == work || dir.guest.is_within(&in_work);
    if !dirs.iter().any(covered) {
        return Ok(in_work);
    }
    GuestPath::new(SCRIPT_DIR).and_then(|dir| dir.child(base)).map_err(|error| refused(error.rule))
}
