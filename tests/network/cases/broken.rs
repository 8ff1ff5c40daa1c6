//! Compromised confined process, and the limits that its broker enforces. The test takes the place of the process with
//! a duplicate of its broker connection.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};

use anyhow::{Context as _, Result, ensure};
use codebox_core::{NetGrant, NetRules};
use codebox_egress::broker::Broker;
use codebox_egress::{Dial as _, DialError};
use codebox_testkit::Guest::Python;
use rustix::net::SocketType;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::{Case, Ground};

pub fn cases() -> Vec<Case> {
    vec![("a_broken_process_gets_no_more_than_was_granted", Python, broken)]
}

/// Child process; killed when dropped.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn broken(ground: &Ground) -> Result<()> {
    let (granted, _) = ground.other("")?;
    let grant = |port: u16| format!("127.0.0.1:{port}");
    let run = ground.kit.codebox().args(["run", "--isolation", "wasm", "--max-net-connections", "3", "--net"]);
    let run = run.arg(grant(granted.address.port())).args(["--lang", "python", "-c", "print(1, flush=True); input()"]);
    let mut child = Ends(run.command().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
    let mut said = String::new();
    BufReader::new(child.0.stdout.take().context("its output")?).read_line(&mut said)?;
    ensure!(said == "1\n", "it said {said:?}");

    let forged = [&granted, &ground.plain].map(|server| NetGrant::new(&grant(server.address.port())));
    let forged = NetRules(forged.into_iter().collect::<Result<_, _>>()?);
    let broker = Broker::resumed(line_of(&child.0)?, &forged);
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let dial = |port: u16| executor.block_on(broker.dial("127.0.0.1", port));
    ensure!(dial(granted.address.port()).is_ok(), "what was granted is not to be had");
    // The forged rules on this side allow the address, so the refusal comes from the broker.
    ensure!(dial(ground.plain.address.port()).is_err(), "what was not granted is to be had");
    ensure!(dial(granted.address.port()).is_ok(), "the third one is not to be had");
    let fourth = dial(granted.address.port());
    ensure!(matches!(fourth, Err(DialError::Failed(_))), "there are more connections than were granted: {fourth:?}");
    Ok(())
}

/// Duplicates the descriptor of a process's broker connection.
fn line_of(child: &Child) -> Result<OwnedFd> {
    let id = Pid::from_child(child);
    let process = pidfd_open(id, PidfdFlags::empty())?;
    for entry in fs::read_dir(format!("/proc/{}/fd", child.id()))? {
        let number = entry?.file_name().to_string_lossy().parse()?;
        let Ok(descriptor) = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) else { continue };
        if rustix::net::sockopt::socket_type(&descriptor) == Ok(SocketType::SEQPACKET) {
            return Ok(descriptor);
        }
    }
    anyhow::bail!("it has no line to a broker")
}
