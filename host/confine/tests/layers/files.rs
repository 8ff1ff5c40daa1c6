//! The files that a confined process can access, and the operations on them.

use crate::probe::{Outcome, Probe};
use crate::{EACCES, ENOSYS, EPERM, check, fixture_dir, ok};

#[test]
fn read_only_directory_is_not_writable() {
    check(&[
        (&["read", "ro/file"], ok("ro")),
        (&["list", "ro"], ok("1")),
        (&["write", "ro/file"], EACCES),
        (&["truncate", "ro/file"], EACCES),
        (&["create", "ro/new"], EACCES),
        (&["remove", "ro/file"], EACCES),
        (&["mkdir", "ro/new"], EACCES),
        (&["symlink", "ro/file", "ro/new"], EACCES),
        (&["rename", "ro/file", "ro/new"], EACCES),
    ]);
}

#[test]
fn writable_directory_allows_ordinary_changes() {
    check(&[
        (&["read", "rw/file"], ok("rw")),
        (&["write", "rw/file"], ok("")),
        (&["truncate", "rw/file"], ok("")),
        (&["create", "rw/new"], ok("")),
        (&["remove", "rw/file"], ok("")),
        (&["mkdir", "rw/new"], ok("")),
        (&["symlink", "rw/file", "rw/new"], ok("")),
        (&["rename", "rw/file", "rw/new"], ok("")),
        (&["link", "rw/file", "rw/new"], ok("")),
        (&["copy", "ro/file", "rw/new"], ok("2")),
        (&["touch", "rw/file"], ok("")),
        (&["lock", "rw/file"], ok("")),
        (&["fchmod", "rw/file"], ok("")),
    ]);
}

#[test]
fn denies_other_paths() {
    check(&[
        (&["read", "out/file"], EACCES),
        (&["list", "out"], EACCES),
        (&["list", ""], EACCES),
        (&["write", "out/file"], EACCES),
        (&["create", "out/new"], EACCES),
        (&["remove", "out/file"], EACCES),
        (&["read", "ro/../out/file"], EACCES),
        (&["rename", "out/file", "rw/new"], EACCES),
        (&["rename", "rw/file", "out/new"], EACCES),
        (&["link", "out/file", "rw/new"], Outcome::Errno(libc::EXDEV)),
    ]);
}

#[test]
fn denies_links_out_of_granted_directories() {
    let fixture_dir = fixture_dir();
    let link = fixture_dir.path().join("rw/link");
    std::os::unix::fs::symlink(fixture_dir.path().join("out/file"), &link).expect("a link");
    let (link, rw) = (link.display().to_string(), fixture_dir.path().join("rw").display().to_string());
    assert_eq!(Probe::new("read").operands(&[link]).read_write(&rw).run().outcome, EACCES);
}

#[test]
fn file_grant_covers_only_that_file() {
    let fixture_dir = fixture_dir();
    let place = |name: &str| fixture_dir.path().join(name).display().to_string();
    let mut probe = Probe::new("read");
    probe.operands(&[place("out/file")]).read(&place("out/file"));
    assert_eq!(probe.run().outcome, ok("out"));
    let mut probe = Probe::new("list");
    probe.operands(&[place("out")]).read(&place("out/file"));
    assert_eq!(probe.run().outcome, EACCES);
}

#[test]
fn denies_mode_changes_and_device_creation() {
    check(&[
        (&["chmod", "rw/file"], EPERM),
        (&["chmod", "out/file"], EPERM),
        (&["set-user-id", "rw/file"], EPERM),
        (&["mkfifo"], EPERM),
        (&["type-into-terminal"], EPERM),
        (&["raise-limit"], EPERM),
    ]);
}

#[test]
fn denies_creation_of_set_user_id_files() {
    check(&[
        (&["create-set-user-id", "rw/new"], EPERM),
        (&["create-set-user-id-with-openat2", "rw/new"], ENOSYS),
        (&["mkdir-set-user-id", "rw/new"], ok("0")),
    ]);
    let fixture_dir = fixture_dir();
    let place = |name: &str| fixture_dir.path().join(name).display().to_string();
    let mut probe = Probe::new("create-set-user-id-with-openat2");
    probe.operands(&[place("rw/new"), "+openat2".to_owned()]).read_write(&place("rw"));
    // This result is the reason for denying the call by default.
    assert_eq!(probe.run().outcome, ok("6000"));
}

#[test]
fn other_directories_cannot_be_listed_or_removed() {
    let fixture_dir = fixture_dir();
    let scratch = fixture_dir.path().join("scratch");
    std::fs::create_dir_all(scratch.join("run-other/unguessable/work")).expect("a new directory");
    std::fs::create_dir_all(scratch.join("run-own")).expect("a new directory");
    let attempt = |action: &str, place: &str| {
        let operand = scratch.join(place).display().to_string();
        let mut probe = Probe::new(action);
        probe.operands(&[operand, "+x".to_owned(), scratch.display().to_string()]);
        probe.run().outcome
    };
    for place in ["", "run-other", "run-other/unguessable"] {
        assert_eq!(attempt("list", place), EACCES, "{place}");
    }
    assert_eq!(attempt("rmdir", "run-other"), Outcome::Errno(libc::ENOTEMPTY));
    assert_eq!(attempt("rmdir", "run-other/0"), Outcome::Errno(libc::ENOENT));
    assert_eq!(attempt("rmdir", "run-own"), ok(""));
}

#[test]
fn rejects_missing_and_symlinked_grants() {
    let fixture_dir = fixture_dir();
    let missing = fixture_dir.path().join("missing").display().to_string();
    let link = fixture_dir.path().join("link").display().to_string();
    std::os::unix::fs::symlink("ro", &link).expect("a link");
    for (place, reason) in [
        (&missing, format!("cannot open granted path {missing}")),
        (&link, format!("granted path {link} is a symbolic link")),
    ] {
        assert_eq!(Probe::new("nothing").read(place).run().outcome, Outcome::Refused(reason));
    }
}
