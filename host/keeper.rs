//! The daemon that keeps containers ready for later runs.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use codebox_container::{ContainerBackend, Flavour};
use codebox_core::{Backend as _, ResultKind};

use codebox_cli::{Failure, KEEP_COMMAND};

/// Starts the daemon and detaches from it.
pub(crate) fn start(flavour: Flavour, asked: &str) -> io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([KEEP_COMMAND, flavour.as_str()]);
    command.env_remove(codebox_cli::STANDBY_VARIABLE);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    match child.stdin.take() {
        Some(mut stdin) => stdin.write_all(asked.as_bytes()),
        None => Ok(()),
    }
}

/// Runs the daemon in this process.
pub(crate) fn keep(engines: &[ContainerBackend], engine: &str, asked: &str) -> Result<(), Failure> {
    let Some(engine) = engines.iter().find(|backend| backend.id().as_str() == engine) else {
        return Err(Failure::new(ResultKind::EngineUnavailable, format!("there is no engine {engine}")));
    };
    crate::containers::block(async { engine.keep(asked).await.map_err(|error| Failure::from(engine.told(error))) })?
}
