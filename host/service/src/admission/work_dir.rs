//! Working directory of a program.

use codebox_core::path::{MappedPath as _, PathMap};
use codebox_core::{GuestPath, HostPath, Isolation, IsolationSet, ResultKind, Source};
use codebox_files::open_dir_without_symlinks;

use super::denied::Denied;

/// Checks that a working directory exists in the guest, or is created there: below the private directories, in a granted directory, or in
/// the image of a container.
pub(super) fn check(
    dir: GuestPath,
    map: &PathMap<HostPath, GuestPath>,
    source: &Source,
    isolations: IsolationSet,
) -> Result<GuestPath, Denied> {
    let refused = |detail: String, fix: &str| {
        Denied::new(ResultKind::InvalidRequest, "use the working directory", dir.as_str(), detail, fix)
    };
    if let Ok(host) = map.to_host(&dir) {
        if open_dir_without_symlinks(&host.to_path_buf()).is_ok() {
            return Ok(dir);
        }
        return Err(refused(format!("there is no directory {host}"), "create it or check the name"));
    }
    let is_private = [GuestPath::work(), GuestPath::tmp()].iter().any(|private| dir.is_within(private));
    let is_in_container = matches!(source, Source::Command(_)) || !isolations.contains(Isolation::Wasm);
    if is_private || is_in_container {
        return Ok(dir);
    }
    let fix = "use a directory below /work, grant it with --dir, or use --isolation container";
    Err(refused("it is neither below /work or /tmp nor in a granted directory".to_owned(), fix))
}
