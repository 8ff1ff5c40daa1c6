use super::*;

fn unix(text: &str) -> HostPath {
    HostPath::unix(text).expect("a Unix path")
}

fn grant(host: &str, guest: &str, access: Access) -> DirGrant {
    DirGrant { host: unix(host), guest: GuestPath::new(guest).expect("a guest path"), access }
}

use Access::{ReadOnly, ReadWrite};

#[test]
fn rejects_duplicate_directories_and_guest_paths() {
    let same = resolve_overlaps(&[grant("/w", "/a", ReadOnly), grant("/w", "/b", ReadOnly)]);
    assert!(matches!(same, Err(OverlapError::DuplicateDirectory { .. })));
    let place = resolve_overlaps(&[grant("/w", "/a", ReadOnly), grant("/x", "/a", ReadOnly)]);
    let message = place.expect_err("the guest path is granted twice").to_string();
    assert_eq!(message, "/a is granted twice, for /w and /x");
    let windows = |text, guest| DirGrant {
        host: HostPath::windows(text).expect("a Windows path"),
        ..grant("/", guest, ReadOnly)
    };
    assert!(resolve_overlaps(&[windows(r"C:\Ws", "/a"), windows(r"c:\ws", "/b")]).is_err());
}

#[test]
fn stricter_grant_wins_under_every_name() {
    let dirs = [grant("/ws/data", "/data", ReadOnly), grant("/ws", "/work", ReadWrite)];
    let resolved = resolve_overlaps(&dirs).expect("no contradiction");
    assert_eq!(resolved[..2], dirs);
    assert_eq!(resolved[2..], [grant("/ws/data", "/work/data", ReadOnly)]);
    // No mount is added if the wider grant shows the directory at its own guest path.
    let nested = [grant("/w", "/w", ReadWrite), grant("/w/ro", "/w/ro", ReadOnly)];
    assert_eq!(resolve_overlaps(&nested).as_deref(), Ok(&nested[..]));
    // A directory that another mount hides cannot be reached through the wider grant.
    let hidden = [grant("/w", "/w", ReadWrite), grant("/x", "/w/a", ReadOnly), grant("/w/a/b", "/b", ReadOnly)];
    assert_eq!(resolve_overlaps(&hidden).as_deref(), Ok(&hidden[..]));
}

#[test]
fn covers_alias_in_every_wider_grant() {
    let dirs = [grant("/w", "/one", ReadWrite), grant("/w/a", "/two", ReadWrite), grant("/w/a/b", "/three", ReadOnly)];
    let resolved = resolve_overlaps(&dirs).expect("no contradiction");
    let added: Vec<&str> = resolved[3..].iter().map(|grant| grant.guest.as_str()).collect();
    assert_eq!(added, ["/one/a/b", "/two/b"]);
}

#[test]
fn writable_dir_inside_read_only_grant_stays_writable() {
    let dirs = [grant("/w", "/w", ReadOnly), grant("/w/out", "/out", ReadWrite)];
    assert_eq!(resolve_overlaps(&dirs).as_deref(), Ok(&dirs[..]));
}

#[test]
fn resolved_grants_form_a_map() {
    let dirs = [grant("/ws/data", "/data", ReadOnly), grant("/ws", "/work", ReadWrite)];
    let map = super::super::PathMap::from_grants(&resolve_overlaps(&dirs).expect("settled")).expect("a map");
    let inside = map.to_guest(&unix("/ws/data/x")).expect("mapped");
    assert_eq!(inside.as_str(), "/data/x");
    let alias = GuestPath::new("/work/data/x").expect("a guest path");
    assert_eq!(map.mount_of(&alias).map(|mount| mount.access), Some(ReadOnly));
}

#[test]
fn rejects_system_directories() {
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
fn protection_follows_scope() {
    let protected = [
        ProtectedDir { path: unix("/home/me"), scope: ProtectionScope::Itself, what: "your home directory".to_owned() },
        ProtectedDir {
            path: unix("/home/me/.cache/codebox"),
            scope: ProtectionScope::Subtree,
            what: "its own".to_owned(),
        },
        ProtectedDir { path: unix("/opt/x/bin/x"), scope: ProtectionScope::Writes, what: "the program".to_owned() },
    ];
    let check_for = |text, access| forbidden_grant_among(&unix(text), access, &protected).map(|f| f.to_string());
    let check = |text| check_for(text, Access::ReadOnly);
    assert_eq!(check("/home/me").as_deref(), Some("cannot grant /home/me: it is your home directory"));
    assert_eq!(check("/home/me/ws"), None);
    assert!(check("/home/me/.cache").is_some_and(|text| text.ends_with("it contains its own")));
    assert!(check("/home/me/.cache/codebox/x").is_some_and(|text| text.ends_with("it is inside its own")));
    for (text, is_forbidden) in [("/opt/x", true), ("/opt/x/bin", true), ("/opt/x/lib", false)] {
        assert_eq!(check(text), None, "{text}");
        assert_eq!(check_for(text, Access::ReadWrite).is_some(), is_forbidden, "{text}");
    }
}
