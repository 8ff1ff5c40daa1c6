//! codebox with a proxy in front of its engine, and removal of its remains.

use std::path::Path;

use anyhow::{Result, ensure};
use codebox_testkit::{Codebox, FaultProxy};

use crate::engine::Engine;
use crate::residue::{self, wait_until_empty};
use crate::test_env::TestEnvironment;

/// Starts a proxy of the machine's own engine.
pub fn proxy(engine: Engine) -> Result<FaultProxy> {
    FaultProxy::to(Path::new(match engine {
        Engine::Podman => "/run/podman/podman.sock",
        Engine::Docker => "/var/run/docker.sock",
    }))
}

/// Points codebox at the proxy.
pub fn via_proxy(proxy: &FaultProxy, engine: Engine, job: Codebox) -> Codebox {
    let variable = match engine {
        Engine::Podman => "CONTAINER_HOST",
        Engine::Docker => "DOCKER_HOST",
    };
    job.env(variable, proxy.address())
}

/// Checks that `codebox gc`, over the engine's own socket, removes all remains.
pub fn check_gc_removes_all(test_env: &TestEnvironment) -> Result<()> {
    // The engine may finish the creation of a container after its owner's death, at an unpredictable time.
    wait_until_empty(|| {
        let result = test_env.codebox().arg("gc").run()?;
        ensure!(result.code == Some(0), "gc: {} {}", result.stdout_text(), result.stderr_text());
        residue::find_remains(test_env, &[])
    })
}
