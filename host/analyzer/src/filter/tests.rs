//! The attempts run in another process of this test program, because the filter kills a process that makes a forbidden
//! call.

use std::fs::File;
use std::io::Read as _;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use super::*;

/// The environment variable that names the attempt to make.
const ATTEMPT: &str = "CODEBOX_TEST_ATTEMPT";

/// The attempts that are forbidden for both processes.
const ALWAYS_FORBIDDEN: [&str; 9] =
    ["open", "write-a-file", "list", "socket", "socket-pair", "udp", "start-a-program", "thread", "executable-memory"];

/// The attempts that only the zygote may make.
const ZYGOTE_ONLY: [&str; 2] = ["fork", "pipe"];

fn attempt(what: &str) {
    match what {
        "open" => drop(File::open("/etc/passwd")),
        "write-a-file" => drop(std::fs::write("/tmp/codebox-analyzer-test", "x")),
        "list" => drop(std::fs::read_dir("/")),
        "socket" => drop(TcpListener::bind("127.0.0.1:0")),
        "socket-pair" => drop(UnixStream::pair()),
        "udp" => drop(UdpSocket::bind("127.0.0.1:0")),
        "start-a-program" => drop(Command::new("/bin/true").status()),
        "thread" => drop(std::thread::Builder::new().spawn(|| {})),
        "executable-memory" => executable_memory(),
        "fork" => drop(crate::sys::fork().map(|forked| match forked {
            crate::sys::ForkResult::Child => crate::sys::exit(0),
            crate::sys::ForkResult::Parent(child) => drop(crate::sys::wait(child)),
        })),
        "pipe" => drop(std::io::pipe()),
        "memory" => drop(std::hint::black_box(vec![1_u8; 64 << 20])),
        other => panic!("{other}"),
    }
}

/// Maps executable memory through the module in which `unsafe` is allowed, because safe code can map memory only as the
/// stack of a thread.
fn executable_memory() {
    crate::sys::map_executable();
}

/// Makes the attempt that the environment names in a confined process, and exits with status 7 if it survives.
#[test]
fn makes_the_attempt() {
    let Ok(named) = std::env::var(ATTEMPT) else { return };
    let (role, what) = named.split_once(' ').expect("a role and an attempt");
    Filter::zygote().and_then(|filter| filter.apply()).expect("a filter");
    if role == "worker" {
        Filter::worker().and_then(|filter| filter.apply()).expect("a filter");
    }
    attempt(what);
    crate::sys::exit(7);
}

fn is_killed(role: &str, what: &str) -> bool {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "filter::tests::makes_the_attempt", "--test-threads", "1"]);
    command.env(ATTEMPT, format!("{role} {what}")).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut output = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut output).expect("text");
    let status = child.wait().expect("it ends");
    match (status.code(), status.signal()) {
        (Some(7), _) => false,
        (_, Some(libc::SIGSYS)) => true,
        _ => panic!("{role} {what}: {status}\n{output}"),
    }
}

#[test]
fn kills_process_on_forbidden_call() {
    for what in ALWAYS_FORBIDDEN {
        for role in ["zygote", "worker"] {
            assert!(is_killed(role, what), "{role} {what}");
        }
    }
    for what in ZYGOTE_ONLY {
        assert!(is_killed("worker", what), "{what}");
        assert!(!is_killed("zygote", what), "{what}");
    }
    for role in ["zygote", "worker"] {
        assert!(!is_killed(role, "memory"), "{role}");
    }
}
