//! The abilities and restrictions of a confined process, each tried in a process of its own.
#![cfg(target_os = "linux")]

mod files;
mod probe;

use std::fs;
use std::net::TcpListener;

use probe::{Outcome, Probe};

const EPERM: Outcome = Outcome::Errno(libc::EPERM);
const EACCES: Outcome = Outcome::Errno(libc::EACCES);
const ENOSYS: Outcome = Outcome::Errno(libc::ENOSYS);

fn ok(answer: &str) -> Outcome {
    Outcome::Ok(answer.to_owned())
}

/// Creates a directory with `ro/file`, `rw/file` and `out/file`, of which `ro` and `rw` are granted.
fn fixture_dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for name in ["ro", "rw", "out"] {
        fs::create_dir(dir.path().join(name)).expect("a new directory");
        fs::write(dir.path().join(name).join("file"), name).expect("a new file");
    }
    dir
}

/// Tries each action in a new directory of [`fixture_dir`]; names are relative to it.
fn check(attempts: &[(&[&str], Outcome)]) {
    for (words, expected) in attempts {
        let fixture_dir = fixture_dir();
        let place = |name: &str| fixture_dir.path().join(name).display().to_string();
        let operands: Vec<String> = words[1..].iter().map(|name| place(name)).collect();
        let mut probe = Probe::new(words[0]);
        probe.operands(&operands).read(&place("ro")).read_write(&place("rw"));
        assert_eq!(probe.run().outcome, *expected, "{words:?}");
    }
}

#[test]
fn both_layers_are_enforced_and_describe_their_coverage() {
    let report = Probe::new("nothing").run();
    assert_eq!(report.outcome, ok(""));
    assert_eq!(report.layers.len(), 2, "{:?}", report.layers);
    for (layer, name) in report.layers.iter().zip(["landlock", "seccomp"]) {
        assert!(layer.starts_with(&format!("{name} Held ")), "{layer}");
    }
}

#[test]
fn denies_network() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback listener");
    let address = listener.local_addr().expect("its address").to_string();
    assert_eq!(Probe::new("tcp").operands(&[address]).run().outcome, EACCES);
    check(&[(&["udp"], EACCES), (&["unix"], EACCES), (&["netlink"], EACCES)]);
}

#[test]
fn passed_sockets_allow_no_new_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback listener");
    let address = [listener.local_addr().expect("its address").to_string()];
    let attempt = |action: &str| Probe::new(action).operands(&address).with_passed_sockets().run().outcome;
    assert_eq!(attempt("exchange"), ok("word0"));
    // The call reaches the kernel, which fails on the null message.
    assert_eq!(attempt("receive-on-control-socket"), Outcome::Errno(libc::EFAULT));
    for action in ["send-to", "receive-on-other-socket", "set-option"] {
        assert_eq!(attempt(action), EPERM, "{action}");
    }
    for action in ["tcp", "udp", "unix", "netlink", "connect-again", "bind", "listen", "accept", "give"] {
        assert_eq!(attempt(action), EACCES, "{action}");
    }
}

#[test]
fn denies_access_to_other_processes() {
    check(&[
        (&["spawn"], EPERM),
        (&["fork"], EPERM),
        (&["new-user-thread"], EPERM),
        (&["clone3"], ENOSYS),
        (&["signal-parent"], EPERM),
        (&["signal-own"], ok("0")),
        (&["exec"], Outcome::Signal(libc::SIGSYS)),
    ]);
}

#[test]
fn kills_process_on_hostile_calls() {
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
        let outcome = Probe::new("call").operands(&[call.to_string()]).run().outcome;
        assert_eq!(outcome, Outcome::Signal(libc::SIGSYS), "system call {call}");
    }
}

#[test]
fn rejects_unlisted_calls() {
    // The last call does not exist in any kernel, and the one before it is an x32 `read` on x86-64.
    let unlisted = [libc::SYS_seccomp, libc::SYS_acct, libc::SYS_personality, 0x4000_0000, 4095];
    for call in unlisted {
        let outcome = Probe::new("call").operands(&[call.to_string()]).run().outcome;
        assert_eq!(outcome, EPERM, "system call {call}");
    }
}

#[test]
fn allows_ordinary_host_operations() {
    check(&[
        (&["thread"], ok("joined")),
        (&["sleep"], ok("true")),
        (&["time"], ok("true")),
        (&["parallelism"], ok("true")),
        (&["allocate"], ok("67108864")),
        (&["map"], ok("")),
        (&["abort"], Outcome::Signal(libc::SIGABRT)),
    ]);
}

#[test]
fn allows_page_scans_through_existing_descriptor() {
    let outcome = Probe::new("scan-pages").run().outcome;
    // Kernels before 6.7 lack the request; the test only shows that the filter does not deny it.
    assert!([ok(""), Outcome::Errno(libc::ENOTTY)].contains(&outcome), "{outcome:?}");
}

#[test]
fn executable_mappings_follow_rules() {
    for action in ["map-exec", "protect-exec"] {
        assert_eq!(Probe::new(action).run().outcome, EPERM, "{action}");
        assert_eq!(Probe::new(action).with_executable_mappings().run().outcome, ok(""), "{action}");
    }
}

#[test]
fn rejects_second_confinement() {
    let outcome = Probe::new("confine").run().outcome;
    assert!(matches!(&outcome, Outcome::Error(message) if message.contains("cannot")), "{outcome:?}");
}

#[test]
fn reports_threads_started_before_confinement() {
    let report = Probe::new("fork").with_running_thread().run();
    let landlock = &report.layers[0];
    let is_confined = landlock.starts_with("landlock Held abi ");
    assert!(is_confined || landlock.ends_with("; outside: 1 threads started before"), "{landlock}");
    assert_eq!(report.outcome, EPERM, "seccomp is enforced nevertheless");
}

/// Prints the cost. Run it with `--ignored --nocapture` and no other test.
#[test]
#[ignore = "a measurement, for a quiet machine"]
fn cost() {
    let fixture_dir = fixture_dir();
    let place = |name: &str| fixture_dir.path().join(name).display().to_string();
    let mut nanoseconds: Vec<u128> = (0..200)
        .map(|_| {
            let mut probe = Probe::new("nothing");
            probe.read(&place("ro")).read(&place("out")).read_write(&place("rw")).run().elapsed_ns
        })
        .collect();
    nanoseconds.sort_unstable();
    let at = |percent: usize| nanoseconds[nanoseconds.len() * percent / 100] / 1_000;
    println!("confine: median {} us, 10 % {} us, 90 % {} us", at(50), at(10), at(90));
    assert!(at(50) < 1_000, "confining costs a millisecond or more");
}
