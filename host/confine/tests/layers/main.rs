//! The abilities and restrictions of a confined process, each tried in a process of its own.
#![cfg(target_os = "linux")]

mod files;
mod probe;

use std::fs;
use std::net::TcpListener;

use probe::{Ending, Probe};

const EPERM: Ending = Ending::Errno(libc::EPERM);
const EACCES: Ending = Ending::Errno(libc::EACCES);
const ENOSYS: Ending = Ending::Errno(libc::ENOSYS);

fn ok(answer: &str) -> Ending {
    Ending::Ok(answer.to_owned())
}

/// Creates a directory with `ro/file`, `rw/file` and `out/file`, of which `ro` and `rw` are granted.
fn world() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for name in ["ro", "rw", "out"] {
        fs::create_dir(dir.path().join(name)).expect("a new directory");
        fs::write(dir.path().join(name).join("file"), name).expect("a new file");
    }
    dir
}

/// Tries each action in a new directory of [`world`]; names are relative to it.
fn check(attempts: &[(&[&str], Ending)]) {
    for (words, expected) in attempts {
        let world = world();
        let place = |name: &str| world.path().join(name).display().to_string();
        let operands: Vec<String> = words[1..].iter().map(|name| place(name)).collect();
        let mut probe = Probe::new(words[0]);
        probe.operands(&operands).read(&place("ro")).read_write(&place("rw"));
        assert_eq!(probe.run().ending, *expected, "{words:?}");
    }
}

#[test]
fn both_layers_are_enforced_and_describe_their_coverage() {
    let report = Probe::new("nothing").run();
    assert_eq!(report.ending, ok(""));
    assert_eq!(report.layers.len(), 2, "{:?}", report.layers);
    for (layer, name) in report.layers.iter().zip(["landlock", "seccomp"]) {
        assert!(layer.starts_with(&format!("{name} Held ")), "{layer}");
    }
}

#[test]
fn there_is_no_network() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback listener");
    let address = listener.local_addr().expect("its address").to_string();
    assert_eq!(Probe::new("tcp").operands(&[address]).run().ending, EACCES);
    check(&[(&["udp"], EACCES), (&["unix"], EACCES), (&["netlink"], EACCES)]);
}

#[test]
fn a_process_that_is_handed_connections_makes_none() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback listener");
    let address = [listener.local_addr().expect("its address").to_string()];
    let tried = |action: &str| Probe::new(action).operands(&address).handed().run().ending;
    assert_eq!(tried("speak"), ok("word0"));
    // The call reaches the kernel, which fails on the null message.
    assert_eq!(tried("take-over-the-line"), Ending::Errno(libc::EFAULT));
    for action in ["speak-to", "take-over-another", "set-option"] {
        assert_eq!(tried(action), EPERM, "{action}");
    }
    for action in ["tcp", "udp", "unix", "netlink", "connect-again", "bind", "listen", "accept", "give"] {
        assert_eq!(tried(action), EACCES, "{action}");
    }
}

#[test]
fn there_is_no_other_process() {
    check(&[
        (&["spawn"], EPERM),
        (&["fork"], EPERM),
        (&["new-user-thread"], EPERM),
        (&["clone3"], ENOSYS),
        (&["signal-parent"], EPERM),
        (&["signal-own"], ok("0")),
        (&["exec"], Ending::Signal(libc::SIGSYS)),
    ]);
}

#[test]
fn hostile_calls_kill() {
    for call in [
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_mount,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_bpf,
        libc::SYS_io_uring_setup,
        libc::SYS_userfaultfd,
        libc::SYS_perf_event_open,
        libc::SYS_keyctl,
        libc::SYS_open_by_handle_at,
        libc::SYS_execveat,
    ] {
        let ending = Probe::new("call").operands(&[call.to_string()]).run().ending;
        assert_eq!(ending, Ending::Signal(libc::SIGSYS), "system call {call}");
    }
}

#[test]
fn unlisted_calls_fail() {
    // The last call does not exist in any kernel, and the one before it is an x32 `read` on x86-64.
    let unlisted = [libc::SYS_seccomp, libc::SYS_acct, libc::SYS_personality, 0x4000_0000, 4095];
    for call in unlisted {
        let ending = Probe::new("call").operands(&[call.to_string()]).run().ending;
        assert_eq!(ending, EPERM, "system call {call}");
    }
}

#[test]
fn what_a_host_does_goes_on() {
    check(&[
        (&["thread"], ok("joined")),
        (&["sleep"], ok("true")),
        (&["time"], ok("true")),
        (&["parallelism"], ok("true")),
        (&["allocate"], ok("67108864")),
        (&["map"], ok("")),
        (&["abort"], Ending::Signal(libc::SIGABRT)),
    ]);
}

#[test]
fn pages_are_scanned_through_a_descriptor_opened_before() {
    let ending = Probe::new("scan-pages").run().ending;
    // Kernels before 6.7 lack the request; the test only shows that the filter does not deny it.
    assert!([ok(""), Ending::Errno(libc::ENOTTY)].contains(&ending), "{ending:?}");
}

#[test]
fn executable_memory_is_what_the_rules_say() {
    for action in ["map-exec", "protect-exec"] {
        assert_eq!(Probe::new(action).run().ending, EPERM, "{action}");
        assert_eq!(Probe::new(action).with_executable_mappings().run().ending, ok(""), "{action}");
    }
}

#[test]
fn a_second_confinement_is_refused() {
    let ending = Probe::new("confine").run().ending;
    assert!(matches!(&ending, Ending::Error(message) if message.contains("cannot")), "{ending:?}");
}

#[test]
fn a_thread_that_was_there_before_is_reported() {
    let report = Probe::new("fork").after_a_thread().run();
    let landlock = &report.layers[0];
    let taken_in = landlock.starts_with("landlock Held abi ");
    assert!(taken_in || landlock.ends_with("; outside: 1 threads started before"), "{landlock}");
    assert_eq!(report.ending, EPERM, "seccomp holds all the same");
}

/// Prints the cost. Run it with `--ignored --nocapture` and no other test.
#[test]
#[ignore = "a measurement, for a quiet machine"]
fn cost() {
    let world = world();
    let place = |name: &str| world.path().join(name).display().to_string();
    let mut nanoseconds: Vec<u128> = (0..200)
        .map(|_| {
            let mut probe = Probe::new("nothing");
            probe.read(&place("ro")).read(&place("out")).read_write(&place("rw")).run().took
        })
        .collect();
    nanoseconds.sort_unstable();
    let at = |percent: usize| nanoseconds[nanoseconds.len() * percent / 100] / 1_000;
    println!("confine: median {} us, 10 % {} us, 90 % {} us", at(50), at(10), at(90));
    assert!(at(50) < 1_000, "confining costs a millisecond or more");
}
