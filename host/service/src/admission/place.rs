//! Where the script stands in the guest.

use std::path::Path;

use codebox_core::path::{MappedPath as _, PathMap};
use codebox_core::{GuestPath, HostPath, InputFile, ResultKind, Source};

use super::denied::Denied;
use super::script::Script;

/// The read-only guest directory of a script that lies in no granted directory.
///
/// It is not the working directory: a program that lists `/work` finds its own files and nothing else there, as one
/// that is started from an empty directory does natively.
pub const SCRIPT_DIR: &str = "/run/codebox";

/// Returns the script as a job's source, and the file to put in if no grant already shows it.
///
/// In a granted directory the script is at its mapped place. Otherwise it goes to [`SCRIPT_DIR`].
pub(super) fn place(script: Script, map: &PathMap<HostPath, GuestPath>) -> Result<(Source, Option<InputFile>), Denied> {
    let Script { typed, canonical, text, language: _ } = script;
    let host = canonical.as_deref().and_then(|path| HostPath::native(path).ok());
    if let Some(name) = host.and_then(|host| map.to_guest(&host).ok()) {
        let source = Source::File { argv0: typed, name, text };
        return Ok((source, None));
    }
    let name = free_place(&typed)?;
    let file = InputFile { path: name.clone(), content: text.clone() };
    let source = Source::File { argv0: typed, name, text };
    Ok((source, Some(file)))
}

fn free_place(typed: &str) -> Result<GuestPath, Denied> {
    let base = Path::new(typed).file_name().and_then(|name| name.to_str()).unwrap_or("script");
    GuestPath::new(SCRIPT_DIR).and_then(|dir| dir.child(base)).map_err(|error| {
        let detail = format!("its name cannot be used: {}", error.rule);
        Denied::new(ResultKind::InvalidRequest, ("run", typed), detail, "rename it")
    })
}
