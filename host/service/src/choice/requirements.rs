//! Order in which isolations are tried, and its reason.

use codebox_core::{Isolation, IsolationSet, ResultKind};

use super::lacks::has;
use crate::admission::Escalation;
use crate::levels::PreferredIsolation;
use crate::needs::{Capability, IsolationRequest, Need, Needs};
use crate::router::{Candidate, ContainerReason, JobRequirements, Rejected};

/// Terms of the caller and the policy, with the request of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RoutingConstraints {
    /// Isolations that the caller and the policy accept.
    pub acceptable: IsolationSet,
    /// Permission to escalate to a container.
    pub escalation: Escalation,
    /// Request in a comment of the program.
    pub isolation_request: Option<IsolationRequest>,
    /// Isolation that a level of the settings prefers.
    pub preferred: Option<PreferredIsolation>,
}

/// Reason for the order of the isolations.
#[derive(Debug, Clone, PartialEq, Eq)]
enum DecisionReason {
    /// The lightest isolation comes first.
    LightestTier,
    /// Only one isolation is accepted.
    OnlyAccepted,
    /// The program requests WebAssembly in this line.
    RequestsWasm(u32),
    /// Only a container can run the job.
    RequiresContainer(ContainerReason),
    /// The program requests a container in this line.
    RequestsContainer(u32),
    /// The program has required needs that WebAssembly does not meet.
    Needs,
    /// A level of the settings prefers an isolation.
    Preferred(PreferredIsolation),
    /// The program needs or requests a container, and the policy forbids escalation.
    Forbidden,
}

/// Requirements of a program on its backend, before any backend is probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierRequirements {
    job_requirements: JobRequirements,
    accepted: IsolationSet,
    order: Vec<Isolation>,
    why: DecisionReason,
    needs: Vec<Need>,
}

impl TierRequirements {
    /// Combines a program's needs with the terms of the caller and the policy.
    pub(super) fn of(job_requirements: JobRequirements, needs: &Needs, constraints: &RoutingConstraints) -> Self {
        let RoutingConstraints { acceptable, escalation, isolation_request, ref preferred } = *constraints;
        // A WebAssembly guest with granted hosts can connect to them. Without any, a client of the standard library fails in a container too,
        // which has no network either; an image can have the packages of others.
        let has_hosts = job_requirements.has_hosts;
        let is_connection = |need: &Need| need.power == Capability::Sockets && need.package().is_none();
        let lacking = |need: &&Need| !(need.is_satisfied_by_hosts() && (has_hosts || is_connection(need)));
        let needs: Vec<Need> = needs.required().filter(lacking).cloned().collect();
        let requested = |isolation| {
            isolation_request
                .filter(|isolation_request| isolation_request.isolation == isolation)
                .map(|isolation_request| isolation_request.line)
        };
        let forbidden = escalation == Escalation::Forbidden;
        let single = acceptable.iter().count() == 1;
        let wasm = acceptable.contains(Isolation::Wasm);
        let moves = !needs.is_empty() || requested(Isolation::Container).is_some();
        let (accepted, why) = if let Some(bound) = &job_requirements.bound {
            (acceptable, DecisionReason::RequiresContainer(bound.clone()))
        } else if single || !wasm {
            (acceptable, if single { DecisionReason::OnlyAccepted } else { DecisionReason::LightestTier })
        } else if let Some(line) = requested(Isolation::Wasm) {
            (IsolationSet::only(Isolation::Wasm), DecisionReason::RequestsWasm(line))
        } else if moves && forbidden {
            (acceptable, DecisionReason::Forbidden)
        } else if let Some(line) = requested(Isolation::Container) {
            (acceptable, DecisionReason::RequestsContainer(line))
        } else if moves {
            (acceptable, DecisionReason::Needs)
        } else if let Some(preferred) = preferred {
            (acceptable, DecisionReason::Preferred(preferred.clone()))
        } else {
            (acceptable, DecisionReason::LightestTier)
        };
        let order = order(accepted, &why);
        Self { job_requirements, accepted, order, why, needs }
    }

    /// Returns the isolations to try, in order.
    pub fn order(&self) -> impl Iterator<Item = Isolation> {
        self.order.iter().copied()
    }

    /// Returns the demand on a backend.
    #[must_use]
    pub fn job_requirements(&self) -> &JobRequirements {
        &self.job_requirements
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
        let language = &self.job_requirements.language;
        let lightest = || format!("{isolation} is the lightest isolation that can run this {language} program");
        let need = self.needs.first().map(lacking).unwrap_or_default();
        match &self.why {
            DecisionReason::OnlyAccepted => format!("{isolation} is the only isolation allowed"),
            DecisionReason::LightestTier if isolation == Isolation::Wasm || against.is_empty() => lightest(),
            DecisionReason::LightestTier => format!("{}, and {isolation} can run it", listed(against)),
            DecisionReason::RequestsWasm(line) => format!("line {line} requests isolation wasm"),
            DecisionReason::RequiresContainer(bound) => format!("{bound} requires a {isolation}"),
            DecisionReason::RequestsContainer(line) if has(isolation) => {
                format!("line {line} requests isolation container")
            }
            DecisionReason::RequestsContainer(line) => {
                format!("line {line} requests isolation container, but none is available: {}", listed(against))
            }
            DecisionReason::Preferred(preferred) => {
                let PreferredIsolation { isolation: first, level, source } = preferred;
                let preferred = format!("the {level} level prefers isolation {first} ({source})");
                match isolation == *first {
                    true => preferred,
                    false => format!("{preferred}, but none is available: {}", listed(against)),
                }
            }
            DecisionReason::Needs if has(isolation) => need,
            DecisionReason::Needs => format!("{need}, but no container is available: {}", listed(against)),
            DecisionReason::Forbidden if self.needs.is_empty() => {
                "the policy does not allow the program to request a container".to_owned()
            }
            DecisionReason::Forbidden => format!("{need}, but the policy does not allow escalation"),
        }
    }

    /// Returns the candidates that are not tried, with the reasons.
    pub(super) fn skipped_candidates(&self, candidates: &[Candidate]) -> Vec<Rejected> {
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
            DecisionReason::RequiresContainer(bound) if self.accepted.contains(isolation) => rejected(
                // If containers are accepted, the reasons against them are reported first; this reason counts only if
                // they are not.
                if self.order.is_empty() { ResultKind::InvalidRequest } else { ResultKind::EngineUnavailable },
                format!("{bound} requires a container"),
                "use --isolation container or auto".to_owned(),
            ),
            DecisionReason::RequestsWasm(line) => rejected(
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

fn order(accepted: IsolationSet, why: &DecisionReason) -> Vec<Isolation> {
    let mut order: Vec<Isolation> = accepted.iter().collect();
    match why {
        DecisionReason::RequiresContainer(_) => order.retain(|isolation| has(*isolation)),
        // The sort is stable: isolations that meet the needs come first, and the lightest of them is the first.
        DecisionReason::Needs | DecisionReason::RequestsContainer(_) => order.sort_by_key(|isolation| !has(*isolation)),
        DecisionReason::Preferred(preferred) => order.sort_by_key(|isolation| *isolation != preferred.isolation),
        DecisionReason::LightestTier
        | DecisionReason::OnlyAccepted
        | DecisionReason::RequestsWasm(_)
        | DecisionReason::Forbidden => {}
    }
    order
}

fn listed(rejected: &[Rejected]) -> String {
    if rejected.is_empty() {
        return "this build has no backend for it".to_owned();
    }
    rejected.iter().map(Rejected::to_string).collect::<Vec<_>>().join("; ")
}
