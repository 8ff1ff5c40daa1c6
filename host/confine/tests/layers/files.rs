//! The files that a confined process can access, and the operations on them.

use crate::probe::{Ending, Probe};
use crate::{EACCES, ENOSYS, EPERM, check, ok, world};

#[test]
fn a_granted_directory_is_read_and_not_written() {
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
fn a_writable_directory_takes_every_ordinary_change() {
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
fn nothing_else_is_reached() {
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
        (&["link", "out/file", "rw/new"], Ending::Errno(libc::EXDEV)),
    ]);
}

#[test]
fn a_link_out_of_a_granted_directory_leads_nowhere() {
    let world = world();
    let link = world.path().join("rw/link");
    std::os::unix::fs::symlink(world.path().join("out/file"), &link).expect("a link");
    let (link, rw) = (link.display().to_string(), world.path().join("rw").display().to_string());
    assert_eq!(Probe::new("read").operands(&[link]).read_write(&rw).run().ending, EACCES);
}

#[test]
fn one_granted_file_grants_nothing_beside_it() {
    let world = world();
    let place = |name: &str| world.path().join(name).display().to_string();
    let mut probe = Probe::new("read");
    probe.operands(&[place("out/file")]).read(&place("out/file"));
    assert_eq!(probe.run().ending, ok("out"));
    let mut probe = Probe::new("list");
    probe.operands(&[place("out")]).read(&place("out/file"));
    assert_eq!(probe.run().ending, EACCES);
}

#[test]
fn modes_and_devices_are_out_of_reach() {
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
fn no_program_of_anothers_rights_is_made() {
    check(&[
        (&["create-set-user-id", "rw/new"], EPERM),
        (&["create-set-user-id-with-openat2", "rw/new"], ENOSYS),
        (&["mkdir-set-user-id", "rw/new"], ok("0")),
    ]);
    let world = world();
    let place = |name: &str| world.path().join(name).display().to_string();
    let mut probe = Probe::new("create-set-user-id-with-openat2");
    probe.operands(&[place("rw/new"), "+openat2".to_owned()]).read_write(&place("rw"));
    // This result is the reason for denying the call by default.
    assert_eq!(probe.run().ending, ok("6000"));
}

#[test]
fn directories_of_others_cannot_be_found_to_be_removed() {
    let world = world();
    let scratch = world.path().join("scratch");
    std::fs::create_dir_all(scratch.join("run-other/unguessable/work")).expect("a new directory");
    std::fs::create_dir_all(scratch.join("run-own")).expect("a new directory");
    let tried = |action: &str, place: &str| {
        let operand = scratch.join(place).display().to_string();
        let mut probe = Probe::new(action);
        probe.operands(&[operand, "+x".to_owned(), scratch.display().to_string()]);
        probe.run().ending
    };
    for place in ["", "run-other", "run-other/unguessable"] {
        assert_eq!(tried("list", place), EACCES, "{place}");
    }
    assert_eq!(tried("rmdir", "run-other"), Ending::Errno(libc::ENOTEMPTY));
    assert_eq!(tried("rmdir", "run-other/0"), Ending::Errno(libc::ENOENT));
    assert_eq!(tried("rmdir", "run-own"), ok(""));
}

#[test]
fn a_grant_that_is_missing_or_a_link_is_refused() {
    let world = world();
    let missing = world.path().join("missing").display().to_string();
    let link = world.path().join("link").display().to_string();
    std::os::unix::fs::symlink("ro", &link).expect("a link");
    for (place, reason) in [
        (&missing, format!("cannot open granted path {missing}")),
        (&link, format!("granted path {link} is a symbolic link")),
    ] {
        assert_eq!(Probe::new("nothing").read(place).run().ending, Ending::Refused(reason));
    }
}
