use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::path::VmPath;

mod properties;

fn unix(text: &str) -> HostPath {
    HostPath::unix(text).expect("a Unix path")
}

fn guest(text: &str) -> GuestPath {
    GuestPath::new(text).expect("a guest path")
}

fn mount<A, B>(from: A, to: B) -> Mount<A, B> {
    Mount { from, to, access: Access::ReadWrite }
}

fn map(mounts: &[(&str, &str)]) -> PathMap<HostPath, GuestPath> {
    PathMap::new(mounts.iter().map(|(from, to)| mount(unix(from), guest(to)))).expect("a map")
}

fn inside(map: &PathMap<HostPath, GuestPath>, outside: &str) -> Option<String> {
    map.to_guest(&unix(outside)).ok().map(|path| path.to_string())
}

fn outside(map: &PathMap<HostPath, GuestPath>, inside: &str) -> Option<String> {
    map.to_host(&guest(inside)).ok().map(|path| path.to_string())
}

#[test]
fn containment_compares_whole_components() {
    let map = map(&[("/ws/s1", "/work")]);
    assert_eq!(inside(&map, "/ws/s1").as_deref(), Some("/work"));
    assert_eq!(inside(&map, "/ws/s1/x").as_deref(), Some("/work/x"));
    for other in ["/ws/s1-evil/x", "/ws/s", "/ws", "/", "/WS/s1", "/ws/s1\u{301}"] {
        assert_eq!(inside(&map, other), None, "{other}");
    }
    assert_eq!(outside(&map, "/work-evil"), None);
    assert!(HostPath::unix("/ws/s1/../s1-evil").is_err());
}

#[test]
fn longest_prefix_wins_in_both_directions() {
    let map = map(&[("/ws", "/work"), ("/ws/data", "/data"), ("/x", "/work/x")]);
    assert_eq!(inside(&map, "/ws/data/a").as_deref(), Some("/data/a"));
    assert_eq!(outside(&map, "/work/x/a").as_deref(), Some("/x/a"));
    assert_eq!(outside(&map, "/work/data/a").as_deref(), Some("/ws/data/a"));
}

#[test]
fn other_names_lead_to_the_inside_only() {
    let map = map(&[("/ws", "/work"), ("/other", "/data")])
        .with_name(unix("/link"), unix("/ws"))
        .with_name(unix("/ws/link"), unix("/other"));
    assert_eq!(inside(&map, "/link/a").as_deref(), Some("/work/a"));
    assert_eq!(inside(&map, "/link").as_deref(), Some("/work"));
    assert_eq!(inside(&map, "/ws/link/a").as_deref(), Some("/data/a"));
    assert_eq!(inside(&map, "/ws/linked").as_deref(), Some("/work/linked"));
    assert_eq!(inside(&map, "/link-2/a"), None);
    assert_eq!(outside(&map, "/work/a").as_deref(), Some("/ws/a"));
    assert_eq!(outside(&map, "/data/a").as_deref(), Some("/other/a"));
}

#[test]
fn rejects_paths_hidden_by_another_mount() {
    let map = map(&[("/ws", "/work"), ("/x", "/work/x")]);
    let hidden = map.to_guest(&unix("/ws/x/a")).expect_err("it is hidden");
    assert!(matches!(hidden, NotMapped::Hidden { .. }), "{hidden}");
    // A second mount of the directory makes the path visible elsewhere.
    let map = self::map(&[("/ws", "/work"), ("/ws/x", "/other"), ("/y", "/work/x")]);
    assert_eq!(inside(&map, "/ws/x/a").as_deref(), Some("/other/a"));
}

#[test]
fn maps_roots_on_both_sides() {
    let whole = map(&[("/", "/host")]);
    assert_eq!(inside(&whole, "/").as_deref(), Some("/host"));
    assert_eq!(inside(&whole, "/etc/x").as_deref(), Some("/host/etc/x"));
    let at_root = map(&[("/ws", "/")]);
    assert_eq!(inside(&at_root, "/ws").as_deref(), Some("/"));
    assert_eq!(inside(&at_root, "/ws/a").as_deref(), Some("/a"));
    assert_eq!(outside(&at_root, "/").as_deref(), Some("/ws"));
}

#[test]
fn private_paths_are_not_mapped() {
    let mounts = [mount(unix("/ws"), guest("/")), mount(unix("/in"), guest("/tmp/in"))];
    let map = PathMap::with_private(mounts, [guest("/tmp")]).expect("a map");
    assert_eq!(outside(&map, "/tmp/a"), None);
    assert_eq!(inside(&map, "/ws/tmp/a"), None);
    assert_eq!(outside(&map, "/tmp/in/a").as_deref(), Some("/in/a"));
    let twice = PathMap::with_private([mount(unix("/ws"), guest("/tmp"))], [guest("/tmp")]);
    assert!(matches!(twice, Err(PathMapError::DuplicateMountPoint { .. })));
}

#[test]
fn preserves_unusual_names() {
    let map = map(&[("/w s/%20:,='\"\n$VAR", "/work")]);
    for name in
        ["a b", "%2e%2e", "a:b", "a,b=c", "'\"", "a\nb", "-rf", "~", "$HOME", "caf\u{e9}", "cafe\u{301}", "C:\\x"]
    {
        let host = unix("/w s/%20:,='\"\n$VAR").child(name).expect("a name");
        let inside_path = map.to_guest(&host).expect("mapped");
        assert_eq!(inside_path.file_name(), Some(name));
        assert_eq!(map.to_host(&inside_path), Ok(host));
    }
}

#[test]
fn maps_or_rejects_windows_paths() {
    let ws = HostPath::windows(r"C:\Ws").expect("a Windows path");
    let map = PathMap::new([mount(ws, guest("/work"))]).expect("a map");
    let deep = HostPath::windows(r"c:\WS\A b\c").expect("a Windows path");
    let inside_path = map.to_guest(&deep).expect("mapped");
    assert_eq!(inside_path.as_str(), "/work/A b/c");
    let back = map.to_host(&inside_path).expect("mapped");
    assert_eq!(back.as_str(), r"C:\Ws\A b\c");
    assert!(back.is_equivalent(&deep));
    for name in ["/work/a:b", "/work/NUL", "/work/a\\b", "/work/a.", "/work/a\nb"] {
        let refused = map.to_host(&guest(name)).expect_err(name);
        assert!(matches!(refused, NotMapped::InvalidName { .. }), "{refused}");
    }
}

#[test]
fn rejects_contradictory_mounts() {
    let twice = PathMap::new([mount(unix("/a"), guest("/w")), mount(unix("/b"), guest("/w"))]);
    assert_eq!(twice, Err(PathMapError::DuplicateMountPoint { at: "/w".to_owned() }));
    let strict = Mount { access: Access::ReadOnly, ..mount(unix("/a"), guest("/r")) };
    let conflict = PathMap::new([mount(unix("/a"), guest("/w")), strict.clone()]);
    assert!(matches!(conflict, Err(PathMapError::ConflictingAccess { .. })));
    // A directory that is mounted at two places is mapped to the first one.
    let both = PathMap::new([strict.clone(), Mount { to: guest("/q"), ..strict }]).expect("a map");
    assert_eq!(inside(&both, "/a/x").as_deref(), Some("/r/x"));
    assert_eq!(outside(&both, "/q/x").as_deref(), Some("/a/x"));
}

#[test]
fn composes_maps() {
    let vm = |text: &str| VmPath::new(text).expect("a VM path");
    let to_vm =
        PathMap::new([mount(HostPath::windows(r"C:\Users").expect("a path"), vm("/mnt/c/Users"))]).expect("a map");
    let strict = Mount { access: Access::ReadOnly, ..mount(vm("/mnt/c/Users/me/ws"), guest("/work")) };
    let to_guest = PathMap::new([strict, mount(vm("/var/scratch"), guest("/work/tmp"))]).expect("a map");
    let both = to_vm.then(&to_guest);
    let file = HostPath::windows(r"C:\Users\me\ws\a.txt").expect("a path");
    assert_eq!(both.to_guest(&file).map(|p| p.to_string()), Ok("/work/a.txt".to_owned()));
    assert_eq!(both.to_host(&guest("/work/a.txt")), Ok(file));
    // The VM's own scratch directory covers this path, which has no counterpart on the host.
    assert!(both.to_host(&guest("/work/tmp/a")).is_err());
    assert_eq!(both.mount_of(&guest("/work/a")).map(|m| m.access), Some(Access::ReadOnly));
}

#[test]
fn composed_access_is_the_stricter_one() {
    let vm = |text: &str| VmPath::new(text).expect("a VM path");
    let (ro, rw) = (Access::ReadOnly, Access::ReadWrite);
    for (outer, inner, want) in [(ro, rw, ro), (rw, ro, ro), (rw, rw, rw)] {
        let to_vm = PathMap::new([
            Mount { access: outer, ..mount(unix("/ws"), vm("/ws")) },
            Mount { access: outer, ..mount(unix("/x"), vm("/ws/x")) },
        ])
        .expect("a map");
        let to_guest = PathMap::new([Mount { access: inner, ..mount(vm("/ws"), guest("/w")) }]);
        let both = to_vm.then(&to_guest.expect("a map"));
        for place in ["/w/a", "/w/x/a"] {
            assert_eq!(both.mount_of(&guest(place)).map(|m| m.access), Some(want), "{place}");
        }
    }
}

#[test]
fn composed_map_rejects_names_invalid_on_host() {
    let vm = |text: &str| VmPath::new(text).expect("a VM path");
    let ws = HostPath::windows(r"C:\ws").expect("a Windows path");
    let to_vm = PathMap::new([mount(ws, vm("/ws"))]).expect("a map");
    let mounts = [mount(vm("/ws"), guest("/w")), mount(vm("/ws/a:b"), guest("/w/c"))];
    let both = to_vm.then(&PathMap::new(mounts).expect("a map"));
    assert!(both.to_host(&guest("/w/c/x")).is_err());
    assert!(both.to_host(&guest("/w/d")).is_ok());
}
