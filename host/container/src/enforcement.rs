//! Enforcement of the limits, and the sandbox layers of a container.

use std::collections::BTreeMap;

use codebox_core::{Cpus, EnforcementLevel, LayerState, LimitKind, SandboxLayer};

use crate::facts::EngineFacts;
use crate::port_forwards::PortForwards;

/// Returns how well each limit is enforced.
pub(crate) fn limit_enforcement(facts: &EngineFacts) -> BTreeMap<LimitKind, EnforcementLevel> {
    let if_so = |so: bool| if so { EnforcementLevel::Enforced } else { EnforcementLevel::Unsupported };
    LimitKind::ALL
        .into_iter()
        .map(|kind| {
            let level = match kind {
                LimitKind::Wall
                | LimitKind::Output
                | LimitKind::OpenFiles
                | LimitKind::NetBytes
                | LimitKind::NetConnections => EnforcementLevel::Enforced,
                // Checked a hundred times per second, over all processes.
                LimitKind::Cpu if facts.own_groups => EnforcementLevel::BestEffort,
                LimitKind::Cpu => EnforcementLevel::Unsupported,
                LimitKind::Memory if facts.limits_memory && !facts.counts_swap => EnforcementLevel::BestEffort,
                LimitKind::Memory => if_so(facts.limits_memory),
                LimitKind::Processes => if_so(facts.limits_processes),
                // No single file can exceed the limit. The total is checked while the job runs.
                LimitKind::Disk | LimitKind::Files => EnforcementLevel::BestEffort,
                LimitKind::Fuel => EnforcementLevel::Unsupported,
            };
            (kind, level)
        })
        .collect()
}

/// Returns the sandbox layers between a job and the machine, in a container with these port forwards and processors.
pub(crate) fn sandbox_layers(
    facts: &EngineFacts,
    port_forwards: &PortForwards,
    cpus: Option<Cpus>,
) -> Vec<SandboxLayer> {
    let layer =
        |name: &str, state, detail: &str| SandboxLayer { name: name.to_owned(), state, detail: detail.to_owned() };
    let network = if port_forwards.is_none() {
        "no network"
    } else {
        "network access to granted hosts only, through this process"
    };
    let user = if facts.rootless { "the calling user" } else { "a user without privileges on the host" };
    let mut layers = vec![
        layer(
            "namespaces",
            LayerState::Held,
            &format!("separate processes, file system, host name and IPC, and {network}"),
        ),
        layer("capabilities", LayerState::Held, &format!("none, as {user}, and none can be gained")),
        match facts.seccomp {
            true => layer("seccomp", LayerState::Held, "the engine's default seccomp profile"),
            false => layer("seccomp", LayerState::Unavailable, "not supported by the engine"),
        },
    ];
    layers.extend(cpus.map(|cpus| layer("processors", LayerState::Held, &format!("at most {cpus} at one time"))));
    layers
}
