//! Order in which isolations are tried, and its reason.

use codebox_core::{Isolation, IsolationSet, ResultKind};

use super::lacks::has;
use crate::admission::Escalation;
use crate::needs::{IsolationRequest, Need, Needs};
use crate::router::{Bound, Candidate, Demand, Rejected};

/// Terms of the caller and the policy, with the request of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Terms {
    /// Isolations that the caller and the policy accept.
    pub acceptable: IsolationSet,
    /// Permission to escalate to a container.
    pub escalation: Escalation,
    /// Request in a comment of the program.
    pub isolation_request: Option<IsolationRequest>,
}

/// Reason for the order of the isolations.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Why {
    /// The lightest isolation comes first.
    Lightest,
    /// Only one isolation is accepted.
    Only,
    /// The program requests WebAssembly in this line.
    RequestsWasm(u32),
    /// Only a container can run the job.
    Bound(Bound),
    /// The program requests a container in this line.
    RequestsContainer(u32),
    /// The program has required needs that WebAssembly does not meet.
    Needs,
    /// The program needs or requests a container, and the policy forbids escalation.
    Forbidden,
}

/// Requirements of a program on its backend, before any backend is probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierRequirements {
    demand: Demand,
    accepted: IsolationSet,
    order: Vec<Isolation>,
    why: Why,
    needs: Vec<Need>,
}

impl TierRequirements {
    /// Combines a program's needs with the terms of the caller and the policy.
    pub(super) fn of(demand: Demand, needs: &Needs, terms: &Terms) -> Self {
        let Terms { acceptable, escalation, isolation_request } = *terms;
        // A WebAssembly guest with granted hosts can connect to them.
        let has_hosts = demand.has_hosts;
        let lacking = |need: &&Need| !(has_hosts && need.is_satisfied_by_hosts());
        let needs: Vec<Need> = needs.required().filter(lacking).cloned().collect();
        let asked = |isolation| {
            isolation_request
                .filter(|isolation_request| isolation_request.isolation == isolation)
                .map(|isolation_request| isolation_request.line)
        };
        let forbidden = escalation == Escalation::Forbidden;
        let single = acceptable.iter().count() == 1;
        let wasm = acceptable.contains(Isolation::Wasm);
        let moves = !needs.is_empty() || asked(Isolation::Container).is_some();
        let (accepted, why) = if let Some(bound) = &demand.bound {
            (acceptable, Why::Bound(bound.clone()))
        } else if single || !wasm {
            (acceptable, if single { Why::Only } else { Why::Lightest })
        } else if let Some(line) = asked(Isolation::Wasm) {
            (IsolationSet::only(Isolation::Wasm), Why::RequestsWasm(line))
        } else if moves && forbidden {
            (acceptable, Why::Forbidden)
        } else if let Some(line) = asked(Isolation::Container) {
            (acceptable, Why::RequestsContainer(line))
        } else if moves {
            (acceptable, Why::Needs)
        } else {
            (acceptable, Why::Lightest)
        };
        let order = order(accepted, &why);
        Self { demand, accepted, order, why, needs }
    }

    /// Returns the isolations to try, in order.
    pub fn order(&self) -> impl Iterator<Item = Isolation> {
        self.order.iter().copied()
    }

    /// Returns the demand on a backend.
    #[must_use]
    pub fn demand(&self) -> &Demand {
        &self.demand
    }

    /// Returns the isolations that the caller, the policy and the program accept.
    #[must_use]
    pub fn accepted(&self) -> IsolationSet {
        self.accepted
    }

    /// Returns the program's required needs.
    #[must_use]
    pub fn needs(&self) -> &[Need] {
        &self.needs
    }

    /// Returns the reason for using a backend with this isolation, in one line; `against` lists the candidates that
    /// were rejected.
    pub(super) fn reason(&self, isolation: Isolation, against: &[Rejected]) -> String {
        let language = &self.demand.language;
        let lightest = || format!("{isolation} is the lightest isolation that can run this {language} program");
        let need = self.needs.first().map(lacking).unwrap_or_default();
        match &self.why {
            Why::Only => format!("{isolation} is the only isolation allowed"),
            Why::Lightest if isolation == Isolation::Wasm || against.is_empty() => lightest(),
            Why::Lightest => format!("{}, and {isolation} can run it", listed(against)),
            Why::RequestsWasm(line) => format!("line {line} requests isolation wasm"),
            Why::Bound(bound) => format!("{bound} requires a {isolation}"),
            Why::RequestsContainer(line) if has(isolation) => format!("line {line} requests isolation container"),
            Why::RequestsContainer(line) => {
                format!("line {line} requests isolation container, but none is available: {}", listed(against))
            }
            Why::Needs if has(isolation) => need,
            Why::Needs => format!("{need}, but no container is available: {}", listed(against)),
            Why::Forbidden if self.needs.is_empty() => {
                "the policy does not allow the program to request a container".to_owned()
            }
            Why::Forbidden => format!("{need}, but the policy does not allow escalation"),
        }
    }

    /// Returns the candidates that are not tried, with the reasons.
    pub(super) fn passed_over(&self, candidates: &[Candidate]) -> Vec<Rejected> {
        let untried = candidates.iter().filter(|candidate| !self.order.contains(&candidate.isolation));
        untried.map(|candidate| self.against(candidate)).collect()
    }

    fn against(&self, candidate: &Candidate) -> Rejected {
        let isolation = candidate.isolation;
        let rejected = |kind, reason: String, fix: String| Rejected {
            candidate: candidate.backend.to_string(),
            kind,
            reason,
            fix,
        };
        match &self.why {
            Why::Bound(bound) if self.accepted.contains(isolation) => rejected(
                // If containers are accepted, the reasons against them are reported first; this reason counts only if
                // they are not.
                if self.order.is_empty() { ResultKind::InvalidRequest } else { ResultKind::EngineUnavailable },
                format!("{bound} requires a container"),
                "use --isolation container or auto".to_owned(),
            ),
            Why::RequestsWasm(line) => rejected(
                ResultKind::EscalationRefused,
                format!("line {line} requests isolation wasm"),
                "remove the comment".to_owned(),
            ),
            _ => Rejected::not_accepted(&candidate.backend, isolation, self.accepted),
        }
    }
}

/// Describes a need that WebAssembly does not meet, with the package to request, because only the user can say which
/// package provides an import.
fn lacking(need: &Need) -> String {
    let unnamed =
        need.package().map(|package| format!(", and no requested package provides it (use --with {package})"));
    format!("{need}, which WebAssembly does not support{}", unnamed.unwrap_or_default())
}

fn order(accepted: IsolationSet, why: &Why) -> Vec<Isolation> {
    let mut order: Vec<Isolation> = accepted.iter().collect();
    match why {
        Why::Bound(_) => order.retain(|isolation| has(*isolation)),
        // The sort is stable: isolations that meet the needs come first, and the lightest of them is the first.
        Why::Needs | Why::RequestsContainer(_) => order.sort_by_key(|isolation| !has(*isolation)),
        Why::Lightest | Why::Only | Why::RequestsWasm(_) | Why::Forbidden => {}
    }
    order
}

fn listed(rejected: &[Rejected]) -> String {
    if rejected.is_empty() {
        return "this build has none".to_owned();
    }
    rejected.iter().map(Rejected::to_string).collect::<Vec<_>>().join("; ")
}
