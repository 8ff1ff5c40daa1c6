//! The program that runs inside a container, statically linked so that it starts in any image.
//!
//! - `serve`, as the container's first process: reads requests from standard input and writes events to standard
//!   output. The words after it are limits of processes.
//! - `attach`, in a container that codebox has not made: does so beside other processes, for a user.
//! - `identify`, in such a container: prints the user and the environment that the engine gives to programs.
//! - `become`, in such a container: changes the user and becomes a program.
//! - `discard`, in such a container: removes the agent.
//! - `query`, inside a job: sends standard input to the host as a query and prints the answer.
//! - `hold-user-namespace`, on the host: keeps a new user namespace alive until its standard input ends, so that the host
//!   can use the namespace for a mount.
//! - `terminal`, inside a box: starts a command with a terminal.
//! - under any other name, inside a box: passes a call of the command with this name to the agent.
//! - `wait`, on the host: waits, at little cost, to be replaced by a program that may never be needed.

#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
mod attached;
#[cfg(target_os = "linux")]
mod boxes;
#[cfg(target_os = "linux")]
mod cgroup;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod job;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod oom_score;
#[cfg(target_os = "linux")]
mod port_forwards;
#[cfg(target_os = "linux")]
mod program;
#[cfg(target_os = "linux")]
mod pty;
#[cfg(target_os = "linux")]
mod queries;
#[cfg(target_os = "linux")]
mod query;
#[cfg(target_os = "linux")]
mod reach;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(target_os = "linux")]
mod shim;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(target_os = "linux")]
mod user_namespace;
#[cfg(target_os = "linux")]
mod wait;
#[cfg(target_os = "linux")]
mod watch;
#[cfg(target_os = "linux")]
mod work_dir;
#[cfg(target_os = "linux")]
mod writer;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    if std::env::args_os().next().is_some_and(|argv0| shim::is_shim(&argv0)) {
        return shim::run();
    }
    let done = match std::env::args().nth(1).as_deref() {
        Some("serve") => serve::serve(std::env::args().skip(2)),
        Some("attach") => serve::serve_attached(&std::env::args().nth(2).unwrap_or_default()),
        Some("identify") => attached::identify(),
        Some("become") => attached::become_user(std::env::args_os().skip(2)),
        Some("discard") => attached::discard(attached::own_dir().as_deref()),
        Some("query") => query::query(),
        Some("hold-user-namespace") => user_namespace::hold(),
        Some("terminal") => terminal::exec(std::env::args_os().skip(2)),
        Some("wait") => wait::wait(std::env::args_os().skip(2)),
        _ => Err(std::io::Error::other(
            "expected serve, attach, identify, become, discard, query, hold-user-namespace, terminal or wait",
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("codebox-agent: {error}");
            ExitCode::from(125)
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("codebox-agent: only Linux containers are supported");
    ExitCode::from(125)
}
