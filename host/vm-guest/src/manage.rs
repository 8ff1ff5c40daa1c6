//! Podman, and the connection to the host.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::Duration;

use codebox_vm_guest::{PODMAN_SOCKET, USER};
use tokio::process::Command;
use tokio::time::sleep;

use crate::exec::{PATH, user_variables};
use crate::groups::{self, user_dirs};
use crate::mark;
use crate::port;
use crate::serve::serve;

/// Pause before Podman is started again, and before the port is opened again while no host is connected.
const PAUSE: Duration = Duration::from_millis(200);

/// Time without use after which the machine gives memory back.
const IDLE: Duration = Duration::from_secs(30);

/// Starts Podman, and serves hosts one after another until one turns the machine off.
pub(crate) fn manage() -> io::Result<()> {
    groups::join()?;
    let was_ended = mark::begin();
    run(async {
        tokio::spawn(async move {
            if !was_ended {
                remove_containers().await;
            }
            keep_podman().await;
        });
        loop {
            // An earlier connection may still have the port.
            if let Ok(port) = port::open()
                && serve(port.ok_or_else(|| io::Error::other("the machine has no port to its host"))?, Some(IDLE))
                    .await
                    .unwrap_or(false)
            {
                return Ok(());
            }
            sleep(PAUSE).await;
        }
    })
}

/// Checks that the machine has Podman, for a host that starts it.
pub(crate) fn check() -> io::Result<()> {
    let found = std::process::Command::new("podman").arg("--version").env("PATH", PATH).stdout(Stdio::null()).status();
    let found = found.map_err(|error| io::Error::other(format!("cannot start Podman: {error}")))?;
    if found.success() { Ok(()) } else { Err(io::Error::other(format!("podman --version has ended with {found}"))) }
}

/// Serves one host over standard input and output, and keeps Podman as long.
pub(crate) fn serve_stdio() -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        user_dirs()?;
        // Without groups of its own, a container has no limits but those of its processes.
        if let Err(error) = groups::delegate().and_then(|()| groups::join()) {
            eprintln!("codebox-vm: cannot delegate a group to Podman: {error}");
        }
    }
    run(async {
        if rustix::process::geteuid().is_root() {
            tokio::spawn(keep_podman());
        }
        // Other programs can use this kernel.
        if serve(tokio::io::join(tokio::io::stdin(), tokio::io::stdout()), None).await? {
            // The host ends the machine.
            rustix::fs::sync();
        }
        // A thread waits for standard input, for which the executor would wait.
        std::process::exit(0)
    })
}

fn run(work: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// Removes the containers of jobs. After a power failure the files of one can be missing, and Podman then lists no container at all.
async fn remove_containers() {
    let script =
        "ids=$(podman ps -aq --filter label=codebox.owner) && [ -z \"$ids\" ] || podman rm --force --time 0 $ids";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script]).env_clear().envs(user_variables()).uid(USER).gid(USER);
    let ended = Command::from(command).stdin(Stdio::null()).current_dir("/").status().await;
    if !ended.as_ref().is_ok_and(std::process::ExitStatus::success) {
        eprintln!("codebox-vm: cannot remove the containers of earlier jobs: {ended:?}");
    }
}

/// Runs the service of Podman, again whenever it ends.
async fn keep_podman() {
    loop {
        let _ = fs::remove_file(PODMAN_SOCKET);
        let mut command = std::process::Command::new("podman");
        command.args(["system", "service", "--time=0", &format!("unix://{PODMAN_SOCKET}")]);
        command.env_clear().envs(user_variables()).uid(USER).gid(USER);
        let ended = Command::from(command).stdin(Stdio::null()).current_dir("/").kill_on_drop(true).status().await;
        eprintln!(
            "codebox-vm: Podman has ended: {}",
            ended.map_or_else(|error| error.to_string(), |end| end.to_string())
        );
        sleep(PAUSE).await;
    }
}
