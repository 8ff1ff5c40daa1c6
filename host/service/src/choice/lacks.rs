//! Features that a tier lacks.

use codebox_core::{Capabilities, EnforcementLevel, Isolation, LimitKind, Support};

use crate::needs::Need;
use crate::router::JobRequirements;

/// Returns true if guests with this isolation have an operating system: threads, processes, sockets, native modules.
pub(super) const fn has(isolation: Isolation) -> bool {
    match isolation {
        Isolation::Wasm => false,
        Isolation::Container | Isolation::Vm => true,
    }
}

/// Lists the features that a backend lacks, each in a few words, those that the program needs first.
#[must_use]
pub fn lacks(
    able: &Capabilities,
    isolation: Isolation,
    job_requirements: &JobRequirements,
    needs: &[Need],
) -> Vec<String> {
    let Capabilities {
        languages,
        forbidden: _,
        limits: _,
        snapshot,
        fork,
        network_filter,
        offline,
        fuel: _,
        engine: _,
    } = able;
    let mut lacks = Vec::new();
    let mut add = |what: String| {
        if !lacks.contains(&what) {
            lacks.push(what);
        }
    };
    if !languages.contains(&job_requirements.language) && !job_requirements.is_command() {
        add(format!("the language {}", job_requirements.language));
    }
    if !has(isolation) {
        needs.iter().for_each(|need| add(need.power.to_string()));
        ["threads", "processes", "sockets", "native modules"].iter().for_each(|what| add((*what).to_owned()));
    }
    for kind in LimitKind::ALL {
        if able.limit_enforcement(kind) == EnforcementLevel::Unsupported {
            add(format!("the {kind} limit"));
        }
    }
    let network_filter = if offline.contains(&job_requirements.language) { Support::No } else { *network_filter };
    let support = [
        (
            network_filter,
            if job_requirements.has_hosts { "network access to the granted hosts" } else { "network grants" },
        ),
        (*snapshot, "snapshots"),
        (*fork, "forks"),
    ];
    for (support, what) in support {
        if support == Support::No {
            add(what.to_owned());
        }
    }
    lacks
}
