//! Places in the guest that belong to the runtime, in either tier.

use codebox_core::path::MappedPath as _;
use codebox_core::{GuestPath, Language};

use super::place::SCRIPT_DIR;

/// Where guests find packages of npm: Node's search for packages goes upwards from any directory and ends here.
pub const NODE_MODULES: &str = "/node_modules";

/// How far a place is taken.
enum Taken {
    /// Nothing may be granted at it, or above it.
    Itself,
    /// Nor below it.
    Subtree,
}

const PLACES: [(&str, Taken); 15] = [
    (SCRIPT_DIR, Taken::Subtree),
    // What a container has of codebox itself.
    ("/.codebox", Taken::Subtree),
    ("/proc", Taken::Subtree),
    ("/sys", Taken::Subtree),
    ("/dev", Taken::Subtree),
    // The runtime's own library, under one name per language.
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

/// Why nothing can be granted at `place`.
pub(super) fn taken(place: &GuestPath) -> Option<&'static str> {
    if place.is_root() {
        return Some("the guest's root holds its runtime");
    }
    PLACES.iter().find_map(|(text, reach)| {
        let runtime = GuestPath::new(*text).ok()?;
        let hit = match reach {
            Taken::Itself => runtime.is_within(place),
            Taken::Subtree => runtime.is_within(place) || place.is_within(&runtime),
        };
        hit.then_some("that place in the guest belongs to its runtime")
    })
}

/// Why nothing can be granted at `place` to a job of this language that has packages. Those of Python are in a place of its
/// runtime.
pub(super) fn taken_by_packages(place: &GuestPath, language: &Language) -> Option<&'static str> {
    let packages = GuestPath::new(NODE_MODULES).ok()?;
    let hit = *language.run_as() == Language::JavaScript && place.is_within(&packages);
    hit.then_some("that place in the guest belongs to its packages")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtimes_places_are_taken_and_others_are_free() {
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
