//! Guest paths that belong to the runtime, in WebAssembly and in containers.

use codebox_core::path::MappedPath as _;
use codebox_core::{GuestPath, Language, PackageManager};

use super::place::SCRIPT_DIR;

/// Guest directory of npm packages. Node searches for packages upwards from any directory, and the search ends here.
pub const NODE_MODULES: &str = "/node_modules";

/// Extent of a reserved guest path.
enum ReservedScope {
    /// The path itself and its ancestors: no grant is allowed there.
    Itself,
    /// The path itself, its ancestors and everything below it.
    Subtree,
}

const RESERVED_PATHS: [(&str, ReservedScope); 15] = [
    (SCRIPT_DIR, ReservedScope::Subtree),
    // Codebox's own files in a container.
    ("/.codebox", ReservedScope::Subtree),
    ("/proc", ReservedScope::Subtree),
    ("/sys", ReservedScope::Subtree),
    ("/dev", ReservedScope::Subtree),
    // The standard library of the runtime, under one name per language.
    ("/usr/local/lib", ReservedScope::Subtree),
    ("/usr/local/bin", ReservedScope::Subtree),
    ("/usr/bin", ReservedScope::Subtree),
    ("/usr/lib", ReservedScope::Subtree),
    ("/usr/share", ReservedScope::Itself),
    ("/bin", ReservedScope::Subtree),
    ("/sbin", ReservedScope::Subtree),
    ("/lib", ReservedScope::Subtree),
    ("/lib64", ReservedScope::Subtree),
    ("/etc", ReservedScope::Itself),
];

/// Returns the reason that nothing can be granted at `place`; `None` if a grant is possible.
pub(super) fn reserved_reason(place: &GuestPath) -> Option<&'static str> {
    if place.is_root() {
        return Some("the guest's root directory contains its runtime");
    }
    RESERVED_PATHS.iter().find_map(|(text, reach)| {
        let runtime = GuestPath::new(*text).ok()?;
        let hit = match reach {
            ReservedScope::Itself => runtime.is_within(place),
            ReservedScope::Subtree => runtime.is_within(place) || place.is_within(&runtime),
        };
        hit.then_some("this guest path is reserved for the runtime")
    })
}

/// Returns the reason that nothing can be granted at `place` to a job of this language that has packages. Python's
/// packages are below a path of the runtime, which [`reserved_reason`] covers.
pub(super) fn reserved_for_packages(place: &GuestPath, language: &Language) -> Option<&'static str> {
    let packages = GuestPath::new(NODE_MODULES).ok()?;
    let hit = language.package_manager() == Some(PackageManager::Npm) && place.is_within(&packages);
    hit.then_some("this guest path is reserved for packages")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtime_paths_are_reserved() {
        for bad in [
            "/",
            "/run",
            "/run/codebox",
            "/run/codebox/x",
            "/usr",
            "/usr/local",
            "/usr/local/lib",
            "/usr/local/lib/python3.15",
            "/dev/shm",
            "/proc",
            "/etc",
            "/lib/x",
        ] {
            assert!(reserved_reason(&GuestPath::new(bad).expect("a path")).is_some(), "{bad}");
        }
        for good in ["/work", "/tmp", "/data", "/work/data", "/etc/app", "/home/me", "/run/app"] {
            assert!(reserved_reason(&GuestPath::new(good).expect("a path")).is_none(), "{good}");
        }
    }
}
