use super::*;

fn unix(text: &str) -> HostPath {
    HostPath::unix(text).expect("a Unix path")
}

fn grant(host: &str, guest: &str, access: Access) -> DirGrant {
    DirGrant { host: unix(host), guest: GuestPath::new(guest).expect("a guest path"), access }
}

use Access::{ReadOnly, ReadWrite};

#[test]
fn one_directory_or_one_place_twice_is_refused() {
    let same = settle(&[grant("/w", "/a", ReadOnly), grant("/w", "/b", ReadOnly)]);
    assert!(matches!(same, Err(OverlapError::SameDirectory { .. })));
    let place = settle(&[grant("/w", "/a", ReadOnly), grant("/x", "/a", ReadOnly)]);
    let message = place.expect_err("one place").to_string();
    assert_eq!(message, "/a is granted twice, for /w and /x");
    let windows = |text, guest| DirGrant {
        host: HostPath::windows(text).expect("a Windows path"),
        ..grant("/", guest, ReadOnly)
    };
    assert!(settle(&[windows(r"C:\Ws", "/a"), windows(r"c:\ws", "/b")]).is_err());
}

#[test]
fn the_stricter_grant_wins_under_every_name() {
    let dirs = [grant("/ws/data", "/data", ReadOnly), grant("/ws", "/work", ReadWrite)];
    let settled = settle(&dirs).expect("no contradiction");
    assert_eq!(settled[..2], dirs);
    assert_eq!(settled[2..], [grant("/ws/data", "/work/data", ReadOnly)]);
    // No mount is added if the wider grant shows the directory at its own guest path.
    let nested = [grant("/w", "/w", ReadWrite), grant("/w/ro", "/w/ro", ReadOnly)];
    assert_eq!(settle(&nested).as_deref(), Ok(&nested[..]));
    // A directory that another mount hides cannot be reached through the wider grant.
    let hidden = [grant("/w", "/w", ReadWrite), grant("/x", "/w/a", ReadOnly), grant("/w/a/b", "/b", ReadOnly)];
    assert_eq!(settle(&hidden).as_deref(), Ok(&hidden[..]));
}

#[test]
fn several_wider_grants_are_each_covered() {
    let dirs = [grant("/w", "/one", ReadWrite), grant("/w/a", "/two", ReadWrite), grant("/w/a/b", "/three", ReadOnly)];
    let settled = settle(&dirs).expect("no contradiction");
    let added: Vec<&str> = settled[3..].iter().map(|grant| grant.guest.as_str()).collect();
    assert_eq!(added, ["/one/a/b", "/two/b"]);
}

#[test]
fn a_writable_part_of_a_readable_directory_is_as_said() {
    let dirs = [grant("/w", "/w", ReadOnly), grant("/w/out", "/out", ReadWrite)];
    assert_eq!(settle(&dirs).as_deref(), Ok(&dirs[..]));
}

#[test]
fn settled_grants_always_make_a_map() {
    let dirs = [grant("/ws/data", "/data", ReadOnly), grant("/ws", "/work", ReadWrite)];
    let map = super::super::PathMap::of_grants(&settle(&dirs).expect("settled")).expect("a map");
    let inside = map.to_guest(&unix("/ws/data/x")).expect("mapped");
    assert_eq!(inside.as_str(), "/data/x");
    let alias = GuestPath::new("/work/data/x").expect("a guest path");
    assert_eq!(map.mount_of(&alias).map(|mount| mount.access), Some(ReadOnly));
}

#[test]
fn system_directories_are_never_granted() {
    for bad in [
        "/",
        "/proc",
        "/proc/self/root",
        "/sys/fs/cgroup",
        "/dev",
        "/dev/shm",
        "/dev/disk",
        "/etc",
        "/var",
        "/run",
        "/var/run",
        "/run/user",
        "/run/user/1000",
        "/run/user/1000/podman",
        "/run/docker",
        "/var/lib/docker/x",
        "/home",
        "/Users",
        "/boot/x",
        "/var/lib",
    ] {
        assert!(forbidden_grant(&unix(bad)).is_some(), "{bad}");
    }
    for good in
        ["/home/me", "/home/me/ws", "/etc/ssl/certs", "/dev/shm/x", "/procs", "/tmp", "/var/tmp/x", "/usr/share"]
    {
        assert_eq!(forbidden_grant(&unix(good)), None, "{good}");
    }
    for (text, forbidden) in
        [(r"C:\", true), (r"\\srv\s\", true), (r"c:\windows\x", true), (r"C:\Users", true), (r"C:\Users\me", false)]
    {
        let path = HostPath::windows(text).expect("a Windows path");
        assert_eq!(forbidden_grant(&path).is_some(), forbidden, "{text}");
    }
}

#[test]
fn protected_directories_reach_as_far_as_they_say() {
    let protected = [
        Protected { path: unix("/home/me"), reach: Reach::Itself, what: "your home directory".to_owned() },
        Protected { path: unix("/home/me/.cache/codebox"), reach: Reach::Subtree, what: "its own".to_owned() },
    ];
    let check = |text| forbidden_grant_among(&unix(text), &protected).map(|f| f.to_string());
    assert_eq!(check("/home/me").as_deref(), Some("cannot grant /home/me: it is your home directory"));
    assert_eq!(check("/home/me/ws"), None);
    assert!(check("/home/me/.cache").is_some_and(|text| text.ends_with("it contains its own")));
    assert!(check("/home/me/.cache/codebox/x").is_some_and(|text| text.ends_with("it is inside its own")));
}
