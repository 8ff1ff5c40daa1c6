//! Podman, and the connection to the host.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::Duration;

use codebox_vm_guest::{PODMAN_SOCKET, USER};
use tokio::process::Command;
use tokio::time::sleep;

use crate::exec::user_variables;
use crate::init::service_group;
use crate::port;
use crate::serve::serve;

/// Pause before Podman is started again, and before the port is opened again while no host is connected.
const PAUSE: Duration = Duration::from_millis(200);

/// Starts Podman, and serves hosts one after another until one turns the machine off.
pub(crate) fn manage() -> io::Result<()> {
    // The group is inherited by Podman.
    fs::write(service_group().join("cgroup.procs"), std::process::id().to_string())?;
    run(async {
        tokio::spawn(keep_podman());
        loop {
            // An earlier connection may still have the port.
            if let Ok(port) = port::open()
                && serve(port.ok_or_else(|| io::Error::other("the machine has no port to its host"))?)
                    .await
                    .unwrap_or(false)
            {
                return Ok(());
            }
            sleep(PAUSE).await;
        }
    })
}

/// Serves one host over standard input and output.
pub(crate) fn serve_stdio() -> io::Result<()> {
    run(async {
        serve(tokio::io::join(tokio::io::stdin(), tokio::io::stdout())).await?;
        Ok(())
    })
}

fn run(work: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// Runs the service of Podman, again whenever it ends.
async fn keep_podman() {
    loop {
        let _ = fs::remove_file(PODMAN_SOCKET);
        let mut command = std::process::Command::new("podman");
        command.args(["system", "service", "--time=0", &format!("unix://{PODMAN_SOCKET}")]);
        command.env_clear().envs(user_variables()).uid(USER).gid(USER);
        let ended = Command::from(command).stdin(Stdio::null()).current_dir("/").status().await;
        eprintln!(
            "codebox-vm: Podman has ended: {}",
            ended.map_or_else(|error| error.to_string(), |end| end.to_string())
        );
        sleep(PAUSE).await;
    }
}
