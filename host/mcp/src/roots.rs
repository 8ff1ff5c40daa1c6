//! Roots of the client as grants.
#![expect(deprecated, reason = "clients of earlier versions of the protocol have roots")]

use codebox_core::{Access, DirGrantSpec, GuestPath};
use rmcp::service::{Peer, RoleServer};

/// Maximum number of roots.
const MAX_ROOTS: usize = 64;

/// Returns grants of the directories that the client names as its roots, each at its own path in the guest. Admission checks them as it
/// checks the operator's.
///
/// # Errors
/// Returns a line about a root that is not a directory of this machine.
pub(crate) async fn grants_of_roots(peer: &Peer<RoleServer>, access: Access) -> Result<Vec<DirGrantSpec>, String> {
    let has_roots = peer.peer_info().is_some_and(|info| info.capabilities.roots.is_some());
    if !has_roots {
        return Ok(Vec::new());
    }
    let listed = peer.list_roots().await.map_err(|error| format!("cannot list the roots of the client: {error}"))?;
    if listed.roots.len() > MAX_ROOTS {
        return Err(format!("the client has more than {MAX_ROOTS} roots"));
    }
    listed.roots.iter().map(|root| grant(&root.uri, access)).collect()
}

fn grant(uri: &str, access: Access) -> Result<DirGrantSpec, String> {
    let refused = |why: &str| format!("the root {} of the client cannot be granted: {why}", uri.escape_debug());
    let path = uri.strip_prefix("file://").ok_or_else(|| refused("it is not a file URI"))?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    if !path.starts_with('/') {
        return Err(refused("it is on another machine"));
    }
    let path = percent_encoding::percent_decode_str(path).decode_utf8().map_err(|_| refused("it is not UTF-8"))?;
    if path.contains('\0') {
        return Err(refused("it contains a NUL"));
    }
    let trimmed = path.trim_end_matches('/');
    let guest = GuestPath::new(trimmed).map_err(|error| refused(&error.to_string()))?;
    Ok(DirGrantSpec { host: trimmed.to_owned(), guest, access })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_directories_of_this_machine() {
        let granted = |uri: &str| grant(uri, Access::ReadOnly).map(|grant| grant.host);
        assert_eq!(granted("file:///home/u/a%20b/").as_deref(), Ok("/home/u/a b"));
        assert_eq!(granted("file://localhost/home").as_deref(), Ok("/home"));
        for uri in
            ["https://a/b", "/home", "file://host/share", "file:///a%00b", "file:///%ff", "file:///", "file:///a/../b"]
        {
            assert!(granted(uri).is_err(), "{uri}: {:?}", granted(uri));
        }
    }
}
