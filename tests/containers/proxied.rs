//! A codebox that reaches its engine through a proxy, and what it leaves.

use std::path::Path;

use anyhow::{Result, ensure};
use codebox_testkit::{Codebox, FaultProxy};

use crate::engine::Engine;
use crate::ground::Ground;
use crate::residue::{self, settle};

/// A proxy of the machine's own engine.
pub fn proxy(engine: Engine) -> Result<FaultProxy> {
    FaultProxy::to(Path::new(match engine {
        Engine::Podman => "/run/podman/podman.sock",
        Engine::Docker => "/var/run/docker.sock",
    }))
}

/// Leads codebox through the proxy.
pub fn through(proxy: &FaultProxy, engine: Engine, job: Codebox) -> Codebox {
    let variable = match engine {
        Engine::Podman => "CONTAINER_HOST",
        Engine::Docker => "DOCKER_HOST",
    };
    job.env(variable, proxy.address())
}

/// What is left is removed by `codebox gc` over the engine's own socket.
pub fn reconciled(ground: &Ground) -> Result<()> {
    // A container that its engine was still making comes to be after its owner is dead, and nobody can tell when.
    settle(|| {
        let ran = ground.codebox().arg("gc").run()?;
        ensure!(ran.code == Some(0), "gc: {} {}", ran.stdout_text(), ran.stderr_text());
        residue::of(ground, &[])
    })
}
