//! Compromised confined process, and the limits that its broker enforces. The test takes the place of the process with
//! a duplicate of its broker connection.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};

use anyhow::{Context as _, Result, ensure};
use codebox_core::{NetGrant, NetRules};
use codebox_egress::broker::BrokerClient;
use codebox_egress::{Dial as _, DialError};
use codebox_testkit::Guest::Python;
use rustix::net::SocketType;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::{Case, TestEnvironment};

pub fn cases() -> Vec<Case> {
    vec![("compromised_process_gets_only_granted_hosts", Python, compromised_process_gets_only_granted_hosts)]
}

/// Child process; killed when dropped.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn compromised_process_gets_only_granted_hosts(test_env: &TestEnvironment) -> Result<()> {
    let (granted, _) = test_env.other("")?;
    let grant = |port: u16| format!("127.0.0.1:{port}");
    let run = test_env.kit.codebox().args(["run", "--isolation", "wasm", "--max-net-connections", "3", "--net"]);
    let run = run.arg(grant(granted.address.port())).args(["--lang", "python", "-c", "print(1, flush=True); input()"]);
    let mut child = KillOnDrop(run.command().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().context("stdout is piped")?).read_line(&mut line)?;
    ensure!(line == "1\n", "stdout is {line:?}");

    let forged = [&granted, &test_env.plain].map(|server| NetGrant::new(&grant(server.address.port())));
    let forged = NetRules(forged.into_iter().collect::<Result<_, _>>()?);
    let broker = BrokerClient::attach(broker_socket(&child.0)?, &forged);
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let dial = |port: u16| executor.block_on(broker.dial("127.0.0.1", port));
    ensure!(dial(granted.address.port()).is_ok(), "granted host is not reachable");
    // The forged rules on this side allow the address, so the refusal comes from the broker.
    ensure!(dial(test_env.plain.address.port()).is_err(), "host without a grant is reachable");
    ensure!(dial(granted.address.port()).is_ok(), "the third connection is not reachable");
    let fourth = dial(granted.address.port());
    ensure!(matches!(fourth, Err(DialError::Failed(_))), "more connections than the limit: {fourth:?}");
    Ok(())
}

/// Duplicates the descriptor of a process's broker connection.
fn broker_socket(child: &Child) -> Result<OwnedFd> {
    let id = Pid::from_child(child);
    let process = pidfd_open(id, PidfdFlags::empty())?;
    for entry in fs::read_dir(format!("/proc/{}/fd", child.id()))? {
        let number = entry?.file_name().to_string_lossy().parse()?;
        let Ok(descriptor) = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) else { continue };
        if rustix::net::sockopt::socket_type(&descriptor) == Ok(SocketType::SEQPACKET) {
            return Ok(descriptor);
        }
    }
    anyhow::bail!("the process has no broker socket")
}
