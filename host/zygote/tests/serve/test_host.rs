//! A host process and its clients, seen from a test.

use std::env;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use codebox_zygote::{Place, Status, status, stop};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::roles::{CLIENT, HOST};

/// Maximum time for a process to reach a state. It is far longer than needed.
const STATE_TIMEOUT: Duration = Duration::from_secs(30);

/// Limits of a host process.
#[derive(Clone, Copy)]
pub struct Limits {
    pub active: usize,
    pub runs: u64,
    /// Seconds.
    pub age: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { active: 8, runs: 1000, age: 1000 }
    }
}

/// A host process in a directory of its own. It is killed when the value is dropped.
pub struct TestHost {
    dir: TempDir,
    process: Child,
}

impl TestHost {
    /// Starts a host process, and returns when it accepts runs.
    pub fn start(limits: Limits) -> Self {
        Self::start_by(Command::new(this_program()), limits)
    }

    /// Starts a host process that ignores the end of its children, unless it restores the default.
    pub fn start_ignoring_children() -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' CHLD; exec \"$@\"", "sh"]).arg(this_program());
        Self::start_by(command, Limits::default())
    }

    fn start_by(mut command: Command, limits: Limits) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let limits = [limits.active as u64, limits.runs, limits.age].map(|limit| limit.to_string());
        command.arg(HOST).arg(dir.path()).args(limits).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("it starts");
        let mut output = process.stdout.take().expect("it is piped");
        output.read_to_end(&mut Vec::new()).expect("it is read");
        Self { dir, process }
    }

    fn place(&self) -> Place {
        Place::below(self.dir.path())
    }

    /// Returns the state of the host process; `None` if it accepts no requests.
    pub fn status(&self) -> Option<Status> {
        status(&self.place()).expect("it answers")
    }

    /// Returns the number of the host process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Opens a connection that sends nothing.
    pub fn connect(&self) -> OwnedFd {
        let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
        let address = SocketAddrUnix::new(self.dir.path().join("host/socket")).expect("a short path");
        connect(&socket, &address).expect("the host process listens");
        socket
    }

    /// Asks the host process to end.
    pub fn stop(&self) {
        assert!(stop(&self.place()).expect("it answers"), "there is no host process");
    }

    /// Returns the path of a file that the host process or a worker creates.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts a client whose run prints these words and waits.
    pub fn client(&self, words: &[&str]) -> Client {
        self.client_of(&this_program(), words)
    }

    /// Starts a client like [`client`](Self::client) of another installation of this program.
    pub fn client_of(&self, program: &Path, words: &[&str]) -> Client {
        let mut command = Command::new(program);
        command.arg(CLIENT).arg(self.dir.path());
        let mut process = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let stdin = process.stdin.take();
        let stdout = BufReader::new(process.stdout.take().expect("it is piped"));
        Client { process, stdin, stdout }
    }

    /// Waits for the end of the host process, and returns its exit status.
    pub fn wait(&mut self) -> Option<i32> {
        let mut status = None;
        wait_until("the host process does not end", || {
            status = self.process.try_wait().expect("it is a child");
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Drop for TestHost {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A client and its run.
pub struct Client {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Client {
    /// Returns the next line that the run prints; empty if it prints nothing.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("it is text");
        line.trim_end().to_owned()
    }

    /// Lets the run end, and returns the exit status of the client; `None` if a signal ended it.
    pub fn end(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.process.wait().expect("it is a child").code()
    }
}

/// Waits until a condition holds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < STATE_TIMEOUT, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Signals a process.
pub fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).expect("a process");
    kill_process(pid, signal).expect("it is a process of this user");
}

/// Returns the path of this program.
pub fn this_program() -> PathBuf {
    env::current_exe().expect("the path of this program")
}
