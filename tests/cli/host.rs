//! The host process: runs in its workers equal runs of their own, and end like them.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::RwLockReadGuard;
use std::thread;
use std::time::{Duration, Instant};

use codebox_testkit::{Codebox, HostProcess, Input, ProcessResult, Soak, soak};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::{assert_one_line, folder, keep_images, kit, run, wait_until};

/// Starts a host process in a home of its own. It is replaced when a runtime or image is prepared, so nothing is while the
/// guard lives.
fn start() -> (TempDir, HostProcess, RwLockReadGuard<'static, ()>) {
    let (kit, folder) = (kit(), folder());
    let guard = keep_images();
    let host = kit.start_host(&folder.path().join("home")).expect("a host process");
    (folder, host, guard)
}

/// Runs a command line with a host process, which must serve it, and without one.
fn run_twice(host: &HostProcess, prepare: impl Fn(Codebox) -> Codebox) -> [ProcessResult; 2] {
    let before = host.runs().expect("a host process");
    let served = run(prepare(host.codebox()));
    assert_eq!(host.runs().expect("a host process"), before + 1, "not served: {}", served.stderr_text());
    [served, run(prepare(kit().codebox()))]
}

#[test]
fn served_runs_equal_other_runs() {
    let (folder, host, _guard) = start();
    let work = folder.path().join("work");
    fs::create_dir_all(work.join("data")).expect("a directory");
    fs::write(work.join("data/in.txt"), "content").expect("a file");
    fs::write(work.join("args.py"), "import os, sys\nprint(sys.argv, os.getcwd())\nsys.exit(7)").expect("a file");
    let cases: &[(&[&str], &str)] = &[
        (&["-c", "print(6 * 7)"], ""),
        (&["-c", "import sys; print(sys.stdin.read()); print('e', file=sys.stderr)"], "some\ninput\0"),
        (&["-"], "print('from stdin')"),
        (&["args.py", "--flag", "", "a b", "\u{e9}"], ""),
        (&["-c", "1 / 0"], ""),
        (&["-c", "def f(:"], ""),
        (&["-c", "raise SystemExit(300)"], ""),
        (&["--dir", "data:/data:ro", "-c", "print(open('/data/in.txt').read()); open('/data/x', 'w')"], ""),
        (&["--dir", "missing:/data", "-c", "pass"], ""),
        (&["--env", "GIVEN", "--env", "B=2", "-c", "import os; print(sorted(os.environ.items()))"], ""),
        (&["--timeout", "300ms", "-c", "while True: pass"], ""),
        (&["--memory", "64M", "-c", "x = bytearray(1 << 28)"], ""),
        (&["--max-output", "1000", "-c", "print('x' * 5000)"], ""),
        (&["--isolation", "wasm", "-c", "import threading; threading.Thread(target=print).start()"], ""),
        (&["-c", "import numpy, pandas; print(pandas.DataFrame({'a': numpy.arange(3)}).sum())"], ""),
        (&["-c", "import scipy.linalg; print(scipy.linalg.det([[1, 2], [3, 4]]))"], ""),
        (&["--lang", "js", "-c", "console.log(6 * 7, process.argv.length); process.exit(3)"], ""),
        (&["--lang", "ts", "-c", "const x: number = 42; console.log(x)"], ""),
        (&["--no-such-option"], ""),
        (&[], ""),
        (&["--help"], ""),
    ];
    for (args, input) in cases {
        let [served, own] = run_twice(&host, |codebox| {
            let codebox =
                codebox.arg("run").args(args.iter().copied()).folder(&work).env("GIVEN", "1").env("=odd", "1");
            codebox.input(Input::Bytes(input.as_bytes().to_vec()))
        });
        let parts = |result: &ProcessResult| (result.code, result.stdout_text(), result.stderr_text());
        assert_eq!(parts(&served), parts(&own), "{args:?}");
    }
}

#[test]
fn reports_of_served_runs_have_the_same_layers_and_limits() {
    let (_folder, host, _guard) = start();
    let [served, own] = run_twice(&host, |codebox| codebox.args(["run", "--json", "-c", "print(1)"]));
    let [served, own] =
        [served, own].map(|result| serde_json::from_slice::<serde_json::Value>(&result.stdout).expect("a report"));
    for member in ["outcome", "stdout", "enforcement", "sandbox", "provenance", "limits", "denials", "exit_code"] {
        assert_eq!(served[member], own[member], "{member}");
    }
    assert!(served.to_string().contains("landlock"), "{served}");
}

#[test]
fn files_have_the_umask_of_the_client() {
    let (folder, host, _guard) = start();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let write = |command: Codebox, out: &Path| {
        let program = command.args(["run", "-c", "open('f', 'w')", "--out"]).arg(out).command();
        let mut shell = Command::new("sh");
        shell.args(["-c", "umask 027; exec \"$@\"", "sh"]).arg(program.get_program()).args(program.get_args());
        shell.env_clear().envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        assert!(shell.stdin(Stdio::null()).status().expect("a shell").success());
        let mode = |path: PathBuf| {
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).expect("it exists").permissions())
        };
        (mode(out.to_owned()), mode(out.join("f")))
    };
    let served = write(host.codebox(), &first);
    assert_eq!(host.runs().expect("a host process"), 1);
    assert_eq!(served, write(kit().codebox(), &second));
}

/// Random numbers and names of a program.
const UNIQUE: &str = "import os, random, uuid, tempfile\n\
    print(random.random(), os.urandom(8).hex(), uuid.uuid4(), tempfile.mktemp())";

#[test]
fn workers_draw_different_random_numbers() {
    let (_folder, host, _guard) = start();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..12 {
        let result = run(host.codebox().args(["run", "-c", UNIQUE]));
        let text = result.stdout_text();
        let words = text.split_whitespace().map(str::to_owned);
        assert_eq!(words.clone().count(), 4, "{}", result.stderr_text());
        for word in words {
            assert!(seen.insert(word.clone()), "{word} was drawn twice");
        }
    }
    assert_eq!(host.runs().expect("a host process"), 12);
}

/// A client whose guest computes until it is stopped.
struct Client {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Client {
    fn start(codebox: Codebox, program: &str) -> Self {
        let mut command = codebox.args(["run", "-c", program]).command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A stop has no effect in a process group of which no process has its parent in another group of the session.
        let mut child = command.process_group(0).spawn().expect("it starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, output }
    }

    fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it prints a line");
        line
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn end(mut self) -> (Option<i32>, Option<i32>, String) {
        drop(self.child.stdin.take());
        let mut text = String::new();
        let mut stderr = self.child.stderr.take().expect("a pipe");
        stderr.read_to_string(&mut text).expect("it is text");
        let status = self.child.wait().expect("it ends");
        (status.code(), status.signal(), text)
    }
}

/// Prints a line, and computes until it is stopped.
const ENDLESS: &str = "print('started', flush=True)\nwhile True: pass";

/// Returns the processes that the host process has forked.
fn workers(host: &HostProcess) -> Vec<u32> {
    let pid = host.pid().expect("a host process");
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("the kernel lists children");
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn active(host: &HostProcess) -> Option<u64> {
    host.status().ok()?["active"].as_u64()
}

/// Returns the letter of a process's state.
fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[test]
fn signals_end_served_runs_as_they_end_others() {
    let (_folder, host, _guard) = start();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let ends = [host.codebox(), kit().codebox()].map(|codebox| {
            let mut client = Client::start(codebox, ENDLESS);
            assert_eq!(client.read_line(), "started\n");
            kill_process(client.pid(), signal).expect("it runs");
            client.end()
        });
        assert_eq!(ends[0], ends[1], "{signal:?}");
    }
    assert_eq!(host.runs().expect("a host process"), 3);
    wait_until("a run did not end", || active(&host) == Some(0));
}

#[test]
fn ignored_signals_stay_ignored() {
    let (_folder, host, _guard) = start();
    let program = host.codebox().args(["run", "-c", "print(input())"]).command();
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP INT; exec \"$@\"", "sh"]).arg(program.get_program()).args(program.get_args());
    shell.env_clear().envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
    wait_until("the run is not served", || active(&host) == Some(1));
    for signal in [Signal::HUP, Signal::INT] {
        kill_process(Pid::from_child(&child), signal).expect("it runs");
    }
    child.stdin.take().expect("a pipe").write_all(b"alive\n").expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"alive\n"[..]));
}

#[test]
fn a_stop_stops_the_worker_until_it_is_continued() {
    let (_folder, host, _guard) = start();
    let program = "print('started', flush=True)\nimport sys\nfor line in sys.stdin: print(line.strip(), flush=True)";
    let mut client = Client::start(host.codebox(), program);
    assert_eq!(client.read_line(), "started\n");
    let pid = client.child.id();
    kill_process(client.pid(), Signal::TSTP).expect("it runs");
    wait_until("the client does not stop", || state(pid) == Some('T'));
    wait_until("no worker stops", || workers(&host).into_iter().any(|worker| state(worker) == Some('T')));
    kill_process(client.pid(), Signal::CONT).expect("it exists");
    wait_until("the client does not continue", || state(pid) != Some('T'));
    wait_until("a worker does not continue", || workers(&host).into_iter().all(|worker| state(worker) != Some('T')));
    client.child.stdin.as_mut().expect("a pipe").write_all(b"more\n").expect("it reads");
    assert_eq!(client.read_line(), "more\n");
    assert_eq!(client.end(), (Some(0), None, String::new()));
}

#[test]
fn the_run_of_a_killed_client_ends() {
    let (_folder, host, _guard) = start();
    let mut client = Client::start(host.codebox(), ENDLESS);
    assert_eq!(client.read_line(), "started\n");
    assert_eq!(active(&host), Some(1));
    client.child.kill().expect("it runs");
    wait_until("the run did not end", || active(&host) == Some(0));
    client.child.wait().expect("it ends");
    let next = run(host.codebox().args(["run", "-c", "print(1)"]));
    assert_eq!((next.stdout_text().as_str(), host.runs().expect("a host process")), ("1\n", 2));
}

#[test]
fn a_killed_worker_is_reported_as_a_killed_run() {
    let (_folder, host, _guard) = start();
    wait_until("no worker is ready", || workers(&host).len() == 1);
    let worker = workers(&host)[0];
    let mut client = Client::start(host.codebox(), ENDLESS);
    assert_eq!(client.read_line(), "started\n");
    let worker = Pid::from_raw(worker as i32).expect("a process");
    kill_process(worker, Signal::KILL).expect("it runs");
    assert_eq!(client.end(), (None, Some(9), String::new()));
    let next = run(host.codebox().args(["run", "-c", "print(1)"]));
    assert_eq!((next.stdout_text().as_str(), host.runs().expect("a host process")), ("1\n", 2));
}

#[test]
fn runs_end_with_a_killed_host_process() {
    let (_folder, host, _guard) = start();
    let mut client = Client::start(host.codebox(), ENDLESS);
    assert_eq!(client.read_line(), "started\n");
    let children = workers(&host);
    assert!(!children.is_empty());
    kill_process(Pid::from_raw(host.pid().expect("a host process")).expect("a process"), Signal::KILL)
        .expect("it runs");
    let (code, signal, message) = client.end();
    assert_eq!((code, signal), (Some(125), None));
    assert_eq!(message, "codebox: the host process ended during the run, and the run with it; run it again\n");
    wait_until("a worker did not end", || children.iter().all(|worker| matches!(state(*worker), None | Some('Z'))));
    // A client without a host process runs the job itself, and a new host process replaces the socket.
    let next = run(host.codebox().args(["run", "-c", "print(1)"]));
    assert_eq!(next.stdout_text(), "1\n");
    let status = host.codebox().args(["host", "start"]).run().expect("it starts");
    assert_eq!(status.code, Some(0), "{}", status.stderr_text());
    assert_eq!(run(host.codebox().args(["run", "-c", "print(2)"])).stdout_text(), "2\n");
}

#[test]
fn clients_that_differ_from_the_host_process_run_their_jobs_themselves() {
    let (_folder, host, _guard) = start();
    for change in ["ulimit -c 0; ulimit -t 600", "ulimit -n 512", "renice -n 5 -p $$ >/dev/null"] {
        let program = host.codebox().args(["run", "-c", "print(1)"]).command();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{change}; exec \"$@\""), "sh"]).arg(program.get_program()).args(program.get_args());
        shell.env_clear().envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = shell.env("PATH", "/usr/bin:/bin").stdin(Stdio::null()).output().expect("a shell");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"1\n"[..]), "{change}: {error}");
        assert_eq!(host.runs().expect("a host process"), 0, "{change}");
    }
}

#[test]
fn a_host_process_that_differs_from_its_clients_ends() {
    let (_folder, host, _guard) = start();
    let run_limited = || {
        let program = host.codebox().args(["run", "-c", "print(1)"]).command();
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -c 0; ulimit -t 600; exec \"$@\"", "sh"]);
        shell.arg(program.get_program()).args(program.get_args()).env_clear();
        shell.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
        assert_eq!(shell.output().expect("a shell").stdout, b"1\n");
    };
    let is_running = || host.codebox().args(["host", "status"]).run().expect("it starts").code == Some(0);
    run_limited();
    assert!(is_running());
    (0..7).for_each(|_| run_limited());
    wait_until("the host process does not end", || !is_running());
}

/// Sends a packet to the host process, and returns its answer.
fn send(host: &HostProcess, packet: &[u8]) -> Vec<u8> {
    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
    let dir = fs::File::open(host.home().join("cache/host")).expect("the directory of the host process");
    let address = format!("/proc/self/fd/{}/socket", std::os::fd::AsRawFd::as_raw_fd(&dir));
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a socket");
    rustix::net::connect(&socket, &SocketAddrUnix::new(address).expect("a short path")).expect("it listens");
    rustix::net::send(&socket, packet, SendFlags::NOSIGNAL).expect("it reads");
    let mut answer = [0; 256];
    let (length, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty()).expect("it answers or closes");
    answer[..length].to_vec()
}

#[test]
fn malformed_packets_and_wrong_secrets_get_no_answer() {
    let (_folder, host, _guard) = start();
    let wrong = |kind: u8| [&b"codebox1"[..], &[kind], &[0; 72]].concat();
    for packet in [&b""[..], b"x", b"codebox1r", &[0; 256], &wrong(b'r'), &wrong(b's'), &wrong(b'q')] {
        assert_eq!(send(&host, packet), b"", "{packet:?}");
    }
    let next = run(host.codebox().args(["run", "-c", "print(1)"]));
    assert_eq!((next.stdout_text().as_str(), host.runs().expect("a host process")), ("1\n", 1));
}

#[test]
fn the_host_process_has_no_variables_of_runs() {
    let (_folder, host, _guard) = start();
    let result = run(host.codebox().env("SECRET", "canary-5Ty").args([
        "run",
        "--env",
        "SECRET",
        "-c",
        "import os; print(os.environ['SECRET'])",
    ]));
    assert_eq!((result.stdout_text().as_str(), host.runs().expect("a host process")), ("canary-5Ty\n", 1));
    let pid = host.pid().expect("a host process");
    let environment = fs::read(format!("/proc/{pid}/environ")).expect("it is ours");
    let names: Vec<_> = environment.split(|byte| *byte == 0).filter(|variable| !variable.is_empty()).collect();
    assert!(names.iter().all(|variable| variable.starts_with(b"CODEBOX_HOME=")), "{names:?}");
    let open = fs::read_dir(format!("/proc/{pid}/fd")).expect("it is ours").count();
    assert!(open < 24, "{open} descriptors are open");
}

#[test]
fn the_directory_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, host, _guard) = start();
    let dir = host.home().join("cache/host");
    assert_eq!(fs::metadata(&dir).expect("it exists").permissions().mode() & 0o7777, 0o700);
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let served = run(host.codebox().args(["run", "-c", "print(1)"]));
    assert_eq!(served.stdout_text(), "1\n");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).expect("it is ours");
    assert_eq!(host.runs().expect("a host process"), 0);
}

/// Bytes of private memory of an idle worker.
const MAX_WORKER_MEMORY: u64 = 3 << 19;

#[test]
fn an_idle_worker_takes_little_memory() {
    let (_folder, host, _guard) = start();
    wait_until("no worker is ready", || workers(&host).len() == 1);
    let worker = workers(&host)[0];
    // The worker prepares itself meanwhile.
    thread::sleep(Duration::from_millis(300));
    let rollup = fs::read_to_string(format!("/proc/{worker}/smaps_rollup")).expect("it is ours");
    let value = |name: &str| -> u64 {
        let line = rollup.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel lists it");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
    };
    let private = value("Private_Dirty:");
    assert!(private <= MAX_WORKER_MEMORY, "{private} bytes");
}

#[test]
fn the_second_run_starts_a_host_process() {
    let _guard = keep_images();
    let folder = folder();
    kit().share_runtimes(folder.path()).expect("a home");
    let codebox = || kit().codebox().home(folder.path()).env("CODEBOX_HOST", "on");
    let is_running = || codebox().args(["host", "status"]).run().expect("it starts").code == Some(0);
    let print = || assert_eq!(run(codebox().args(["run", "-c", "print(1)"])).stdout_text(), "1\n");
    print();
    assert!(!is_running());
    assert_eq!(run(codebox().env("CODEBOX_HOST", "off").args(["run", "-c", "print(1)"])).stdout_text(), "1\n");
    assert!(!is_running());
    print();
    wait_until("there is no host process", is_running);
    let stopped = codebox().args(["host", "stop"]).run().expect("it starts");
    assert_eq!(stopped.code, Some(0), "{}", stopped.stderr_text());
    wait_until("the host process does not stop", || !is_running());
}

#[test]
fn the_configuration_controls_the_host_process() {
    let _guard = keep_images();
    let folder = folder();
    kit().share_runtimes(folder.path()).expect("a home");
    let config = folder.path().join("config/config.toml");
    fs::create_dir_all(config.parent().expect("a directory")).expect("a directory");
    let codebox = || kit().codebox().home(folder.path()).env("CODEBOX_HOST", "on");
    let status = || codebox().args(["host", "status"]).run().expect("it starts");
    fs::write(&config, "[host]\nenabled = false\n").expect("a file");
    assert_one_line(&codebox().args(["host", "start"]).run().expect("it starts"), 125, "host.enabled");
    fs::write(&config, "[host]\nautostart = true\nidle = \"1h\"\n").expect("a file");
    assert_eq!(run(codebox().args(["run", "-c", "print(1)"])).stdout_text(), "1\n");
    wait_until("there is no host process", || status().code == Some(0));
    assert!(status().stdout_text().contains("ends after 1h without a run"), "{}", status().stdout_text());
    // A change of the configuration ends the host process, and the new one is not allowed to run.
    fs::write(&config, "[host]\nenabled = false\n").expect("a file");
    assert_eq!(run(codebox().args(["run", "-c", "print(1)"])).stdout_text(), "1\n");
    wait_until("the host process does not stop", || status().code == Some(1));
}

#[test]
fn a_host_process_without_runs_ends() {
    let _guard = keep_images();
    let folder = folder();
    kit().share_runtimes(folder.path()).expect("a home");
    fs::create_dir_all(folder.path().join("config")).expect("a directory");
    fs::write(folder.path().join("config/config.toml"), "[host]\nidle = \"1s\"\n").expect("a file");
    let host = kit().start_host(folder.path()).expect("a host process");
    let pid = u32::try_from(host.pid().expect("a host process")).expect("a process");
    wait_until("the host process does not end", || matches!(state(pid), None | Some('Z')));
    assert!(!folder.path().join("cache/host/socket").exists());
}

#[test]
fn a_stopped_host_process_leaves_no_directories() {
    let _guard = keep_images();
    let folder = folder();
    let scratch = folder.path().join("cache/scratch");
    let is_empty = || fs::read_dir(&scratch).is_ok_and(|mut entries| entries.next().is_none());
    for _ in 0..10 {
        let host = kit().start_host(folder.path()).expect("a host process");
        wait_until("no worker is ready", || !is_empty());
        drop(host);
        assert!(is_empty(), "the directory of the worker is left");
    }
}

/// Runs a shell script in which `$0` is codebox, with a host process or without one.
fn shell(host: Option<&HostProcess>, dir: &Path, script: &str) -> String {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(script).arg(kit().binary()).current_dir(dir).stdin(Stdio::null());
    match host {
        Some(host) => shell.env("CODEBOX_HOME", host.home()).env_remove("CODEBOX_HOST"),
        None => shell.env("CODEBOX_HOME", kit().home()).env("CODEBOX_HOST", "off"),
    };
    let output = shell.output().expect("a shell");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn the_files_of_a_run_are_free_when_it_ends() {
    let (folder, host, _guard) = start();
    let script = "for _ in $(seq 40); do
        \"$0\" run -c 'print(\"#!/bin/sh\\necho done\")' >script && chmod +x script && ./script || exit
    done";
    assert_eq!(shell(Some(&host), folder.path(), script), "done\n".repeat(40));
    assert!(host.runs().expect("a host process") >= 40);
}

#[test]
fn a_served_run_whose_reader_stalls_ends_at_its_deadline() {
    let (_folder, host, _guard) = start();
    let mut command = host.codebox().args(["run", "--timeout", "1s", "-c", "while True: print('x' * 10000)"]).command();
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut status = None;
    wait_until("the deadline does not end the run", || {
        status = child.try_wait().expect("it is a child");
        status.is_some()
    });
    assert_eq!(status.and_then(|status| status.code()), Some(124));
    assert_eq!(host.runs().expect("a host process"), 1);
}

#[test]
fn programs_are_read_from_any_descriptor() {
    let (folder, host, _guard) = start();
    fs::write(folder.path().join("program.py"), "print(6 * 7)").expect("a file");
    let script = "\"$0\" run /dev/fd/7 7<program.py";
    for host in [Some(&host), None] {
        assert_eq!(shell(host, folder.path(), script), "42\n");
    }
}

#[test]
fn a_relative_home_has_a_host_process() {
    let _guard = keep_images();
    let folder = folder();
    kit().share_runtimes(&folder.path().join("home")).expect("a home");
    let script = "export CODEBOX_HOME=home; \"$0\" host start && \"$0\" host status && \"$0\" host stop";
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(script).arg(kit().binary()).current_dir(folder.path()).env_remove("CODEBOX_HOST");
    let output = shell.output().expect("a shell");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(folder.path().join("home/cache/host").is_dir());
}

#[test]
fn a_launcher_without_the_complete_program_says_so() {
    let folder = folder();
    let launcher = folder.path().join("codebox");
    fs::copy(kit().binary(), &launcher).expect("a copy");
    let result = Codebox::new(&launcher, folder.path()).args(["run", "-c", ""]).run().expect("it starts");
    assert_one_line(&result, 125, "codebox-full");
    assert!(result.stderr_text().contains("install codebox again"), "{}", result.stderr_text());
}

#[test]
fn images_list_the_pages_that_programs_write() {
    let prepared = fs::read_dir(kit().home().join("cache/prepared")).expect("prepared runtimes");
    let latest = prepared
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("python-"))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path().join("manifest.json"))))
        .max()
        .expect("a prepared Python");
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(latest.1).expect("a manifest")).expect("a JSON document");
    let hot = manifest["manifest"]["images"]["python"]["hot"].as_array().expect("a list");
    let bytes: u64 = hot.iter().filter_map(|range| range[1].as_u64()).sum();
    assert!((1 << 18..8 << 20).contains(&bytes), "{bytes} bytes in {} ranges", hot.len());
}

/// The parts of the code that no run has needed are compiled in the background. Takes minutes, so only the long form runs.
#[test]
fn compiles_rest_in_background() {
    if soak() == Soak::Short {
        return;
    }
    let (kit, home) = (kit(), folder());
    fs::create_dir_all(home.path().join("data")).expect("a directory");
    std::os::unix::fs::symlink(kit.home().join("data/runtimes"), home.path().join("data/runtimes")).expect("a link");
    let codebox = || kit.codebox().home(home.path());
    assert_eq!(run(codebox().args(["run", "-c", "print(1)"])).stdout_text(), "1\n");
    assert_eq!(run(codebox().env("CODEBOX_HOST", "on").args(["host", "start"])).code, Some(0));
    let prepared = fs::read_dir(home.path().join("cache/prepared")).expect("a directory");
    let prepared = prepared.map(|entry| entry.expect("an entry").path()).next().expect("Python is prepared");
    let is_complete = || {
        let manifest = fs::read_to_string(prepared.join("manifest.json")).unwrap_or_default();
        ["code-core", "code-data", "part-data", "part-rest"]
            .iter()
            .all(|name| manifest.contains(&format!("{name}.cwasm")))
    };
    let start = Instant::now();
    while !is_complete() {
        assert!(start.elapsed() < Duration::from_secs(900), "the code is not compiled");
        thread::sleep(Duration::from_millis(200));
    }
    let ran = run(codebox().args(["run", "-c", "import scipy; print(scipy.__name__)"]));
    assert_eq!(ran.stdout_text(), "scipy\n", "{}", ran.stderr_text());
    assert!(!ran.stderr_text().contains("compiling"), "{}", ran.stderr_text());
    run(codebox().env("CODEBOX_HOST", "on").args(["host", "stop"]));
}
