//! The program of a virtual machine.
//!
//! - as the first process of the initial file system: loads modules, and continues in the root file system.
//! - as the first process of that: sets the machine up, starts `manage`, and reaps processes.
//! - `manage`: starts Podman, and serves requests of the host over the virtual serial port.
//! - `serve`: starts Podman, and serves requests over standard input and output, where another program has set the machine up.
//! - `check`: checks that there is Podman.

#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
mod boot;
#[cfg(target_os = "linux")]
mod exec;
#[cfg(target_os = "linux")]
mod groups;
#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod manage;
#[cfg(target_os = "linux")]
mod mark;
#[cfg(target_os = "linux")]
mod port;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(target_os = "linux")]
mod share;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let done = match (std::process::id(), std::env::args().nth(1).as_deref()) {
        (1, _) if boot::is_initial() => boot::boot(),
        (1, _) => init::init(),
        (_, Some("manage")) => manage::manage(),
        (_, Some("serve")) => manage::serve_stdio(),
        (_, Some("check")) => manage::check(),
        _ => Err(std::io::Error::other("expected manage, serve or check")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("codebox-vm: {error}");
            if std::process::id() == 1 {
                init::power_off();
            }
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("codebox-vm-guest runs on Linux only");
    ExitCode::FAILURE
}
