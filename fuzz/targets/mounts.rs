//! Resolves arbitrary paths among arbitrary mounts.
#![no_main]

use codebox_core::path::{Mount, PathMap};
use codebox_core::{Access, GuestPath, HostPath};
use libfuzzer_sys::fuzz_target;
use resolve::Prefix;

/// Stand-in for the one item that the file below uses from its own crate.
mod devices {
    pub(crate) const DIRECTORY: &str = "dev";
}

#[path = "../../host/wasm/src/mounts/resolve.rs"]
mod resolve;

fuzz_target!(|input: (Vec<&str>, &str)| {
    let (mount_points, path) = input;
    check_mount_table(&mount_points, path);
    map(&mount_points, path);
});

/// Checks the mount table of a WebAssembly guest.
fn check_mount_table(mount_points: &[&str], path: &str) {
    let parts = |mount_point: &&str| {
        let parts = mount_point.split('/').filter(|part| !matches!(*part, "" | "." | ".."));
        parts.map(str::to_owned).collect::<Vec<_>>()
    };
    let mounts: Vec<Vec<String>> = mount_points.iter().map(parts).filter(|parts| !parts.is_empty()).collect();
    assert!(resolve::device_path(path).is_none_or(|rest| path.ends_with(rest)), "{path:?}");
    if let Prefix::Found { index, rest } = resolve::resolve(&mounts, path) {
        assert!(mounts.get(index).is_some() && path.is_char_boundary(rest), "{mounts:?} {path:?}");
        // The part before the rest consists of the mount's name and of steps back from it.
        let before = path[..rest].split('/').filter(|part| !matches!(*part, "" | "." | ".."));
        assert!(before.count() >= mounts[index].len(), "{mounts:?} {path:?}");
    }
}

/// Checks the path map of all backends.
fn map(mount_points: &[&str], path: &str) {
    let mounts = mount_points.iter().enumerate().filter_map(|(n, mount_point)| {
        let from = HostPath::unix(&format!("/host/{n}")).ok()?;
        Some(Mount { from, to: GuestPath::new(*mount_point).ok()?, access: Access::ReadOnly })
    });
    let Ok(map) = PathMap::new(mounts.collect::<Vec<_>>()) else { return };
    let Ok(path) = GuestPath::new(path) else { return };
    match map.to_host(&path) {
        Ok(host) => {
            let mount = map.mount_of(&path).expect("what maps has a mount");
            assert!(host.as_str().starts_with(mount.from.as_str()), "{host:?} {mount:?}");
            assert!(!host.as_str().split('/').any(|part| matches!(part, "." | "..")), "{host:?}");
            assert_eq!(map.to_guest(&host).ok().as_ref(), Some(&path));
        }
        Err(_) => assert!(map.mount_of(&path).is_none(), "{path:?}"),
    }
}
