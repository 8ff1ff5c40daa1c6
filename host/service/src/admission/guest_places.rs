//! Guest paths that belong to the runtime, in WebAssembly and in containers.

use codebox_core::path::MappedPath as _;
use codebox_core::{GuestPath, Language, PackageManager};

use super::place::SCRIPT_DIR;

/// Guest directory of npm packages. Node searches for packages upwards from any directory, and the search ends here.
pub const NODE_MODULES: &str = "/node_modules";

/// Extent of a reserved guest path.
enum Taken {
    /// The path itself and its ancestors: no grant is allowed there.
    Itself,
    /// The path itself, its ancestors and everything below it.
    Subtree,
}

const PLACES: [(&str, Taken); 15] = [
    (SCRIPT_DIR, Taken::Subtree),
    // Codebox's own files in a container.
    ("/.codebox", Taken::Subtree),
    ("/proc", Taken::Subtree),
    ("/sys", Taken::Subtree),
    ("/dev", Taken::Subtree),
    // The standard library of the runtime, under one name per language.
    ("/usr/local/lib", Taken::Subtree),
    ("/usr/local/bin", Taken::Subtree),
    ("/usr/bin", Taken::Subtree),
    ("/usr/lib", Taken::Subtree),
    ("/usr/share", Taken::Itself),
    ("/bin", Taken::Subtree),
    ("/sbin", Taken::Subtree),
    ("/lib", Taken::Subtree),
    ("/lib64", Taken::Subtree),
    ("/etc", Taken::Itself),
];

/// Returns the reason that nothing can be granted at `place`; `None` if a grant is possible.
pub(super) fn taken(place: &GuestPath) -> Option<&'static str> {
    if place.is_root() {
        return Some("the guest's root directory contains its runtime");
    }
    PLACES.iter().find_map(|(text, reach)| {
        let runtime = GuestPath::new(*text).ok()?;
        let hit = match reach {
            Taken::Itself => runtime.is_within(place),
            Taken::Subtree => runtime.is_within(place) || place.is_within(&runtime),
        };
        hit.then_some("this guest path is reserved for the runtime")
    })
}

/// Returns the reason that nothing can be granted at `place` to a job of this language that has packages. Python's
/// packages are below a path of the runtime, which [`taken`] covers.
pub(super) fn taken_by_packages(place: &GuestPath, language: &Language) -> Option<&'static str> {
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
            assert!(taken(&GuestPath::new(bad).expect("a path")).is_some(), "{bad}");
        }
        for good in ["/work", "/tmp", "/data", "/work/data", "/etc/app", "/home/me", "/run/app"] {
            assert!(taken(&GuestPath::new(good).expect("a path")).is_none(), "{good}");
        }
    }
}
