//! The limits of processes, with an engine that ignores them.

#![cfg(target_os = "linux")]

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use codebox_agent::frame::Decoder;
use codebox_agent::{Event, JobExit, QueryPermission, Request, Run, Status};

/// Starts the agent as the first process of a namespace of its own, as an engine does, and returns the output and the end of a script.
fn run(limits: &[&str], script: &str) -> (String, Option<JobExit>) {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.args(["--pid", "--fork", "--kill-child", env!("CARGO_BIN_EXE_codebox-agent"), "serve"]).args(limits);
    let mut agent = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("unshare starts");
    let run = Run {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        from_image: Vec::new(),
        cwd: "/".to_owned(),
        query_permission: QueryPermission::Denied,
        port_forwards: Vec::new(),
        terminal: None,
        terminal_edits: false,
        wall_ms: None,
        cpu_ms: None,
    };
    let mut stdin = agent.stdin.take().expect("it is a pipe");
    // An agent that has refused its command line does not read it.
    let _ = stdin.write_all(&Request::Run(run).encode());
    let mut stdout = agent.stdout.take().expect("it is a pipe");
    let mut decoder = Decoder::new(Request::MAX_PAYLOAD_SIZE);
    let mut output = Vec::new();
    let mut buffer = [0; 4096];
    let ended = loop {
        while let Some(frame) = decoder.next_frame().expect("frames are valid") {
            match Event::decode(frame).expect("events are valid") {
                Event::Stdout(bytes) => output.extend(bytes),
                Event::JobExit(exit) => {
                    drop(stdin);
                    agent.wait().expect("it ends");
                    return (String::from_utf8(output).expect("text"), Some(exit));
                }
                _ => {}
            }
        }
        match stdout.read(&mut buffer).expect("it is read") {
            0 => break None,
            count => decoder.push(&buffer[..count]),
        }
    };
    agent.wait().expect("it ends");
    (String::from_utf8(output).expect("text"), ended)
}

#[test]
fn programs_have_the_limits_of_the_agent() {
    // POSIX counts blocks of 512 bytes.
    let script = "ulimit -Hn; ulimit -Sn; ulimit -Hf; ulimit -Hc; ulimit -n 80 || echo refused";
    let (output, ended) = run(&["core=0", "nofile=40", "nproc=4096", "fsize=8388608"], script);
    assert_eq!(output, "40\n40\n16384\n0\nrefused\n");
    assert_eq!(ended.expect("it ends").status, Status::Exited(0));
    // A limit of the engine that is lower stays.
    let (output, _) = run(&["nofile=1000000000000"], "ulimit -Hn");
    let own = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(1_000_000_000_000);
    assert_eq!(output.trim(), own.min(1_000_000_000_000).to_string());
}

#[test]
fn unknown_limits_are_refused() {
    assert_eq!(run(&["stack=1"], "echo started"), (String::new(), None));
}
