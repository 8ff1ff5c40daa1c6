//! In which order isolations are tried, and why.

use codebox_core::{Isolation, IsolationSet, ResultKind};

use super::{Candidate, has};
use crate::needs::{Ask, Need, Needs};
use crate::router::{Bound, Demand, Network, Rejected};

/// Whether the policy lets a program's needs lead it from WebAssembly to a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Escalation {
    /// It does.
    #[default]
    Allowed,
    /// It does not.
    Forbidden,
}

/// What others than the program say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The isolations that the caller and the policy accept.
    pub acceptable: IsolationSet,
    /// Whether needs may lead to a container.
    pub escalation: Escalation,
    /// What the program asks for.
    pub ask: Option<Ask>,
}

/// Why the isolations are tried in the order in which they are.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Why {
    /// The lightest first.
    Lightest,
    /// Only one was accepted.
    Only,
    /// The program asks for WebAssembly.
    AsksForLess(u32),
    /// Only a container runs such a thing.
    Bound(Bound),
    /// The program asks for a container.
    AsksForContainer(u32),
    /// The program needs this and more.
    Needs,
    /// It does, and may not have it.
    Forbidden,
}

/// What a program wants of a backend, before any was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    demand: Demand,
    accepted: IsolationSet,
    order: Vec<Isolation>,
    why: Why,
    needs: Vec<Need>,
}

impl Wanted {
    /// What needs, caller and policy come to.
    #[must_use]
    pub fn of(demand: Demand, needs: &Needs, terms: &Terms) -> Self {
        let Terms { acceptable, escalation, ask } = *terms;
        // A guest of WebAssembly that was granted hosts reaches them.
        let has_hosts = demand.network == Network::Hosts;
        let lacking = |need: &&Need| !(has_hosts && need.is_met_by_hosts());
        let needs: Vec<Need> = needs.required().filter(lacking).cloned().collect();
        let asked = |isolation| ask.filter(|ask| ask.isolation == isolation).map(|ask| ask.line);
        let forbidden = escalation == Escalation::Forbidden;
        let single = acceptable.iter().count() == 1;
        let wasm = acceptable.contains(Isolation::Wasm);
        let moves = !needs.is_empty() || asked(Isolation::Container).is_some();
        let (accepted, why) = if let Some(bound) = &demand.bound {
            (acceptable, Why::Bound(bound.clone()))
        } else if single || !wasm {
            (acceptable, if single { Why::Only } else { Why::Lightest })
        } else if let Some(line) = asked(Isolation::Wasm) {
            (IsolationSet::only(Isolation::Wasm), Why::AsksForLess(line))
        } else if moves && forbidden {
            (acceptable, Why::Forbidden)
        } else if let Some(line) = asked(Isolation::Container) {
            (acceptable, Why::AsksForContainer(line))
        } else if moves {
            (acceptable, Why::Needs)
        } else {
            (acceptable, Why::Lightest)
        };
        let order = order(accepted, &why);
        Self { demand, accepted, order, why, needs }
    }

    /// The isolations to try, in their order.
    pub fn order(&self) -> impl Iterator<Item = Isolation> {
        self.order.iter().copied()
    }

    /// What is demanded of a backend.
    #[must_use]
    pub fn demand(&self) -> &Demand {
        &self.demand
    }

    /// The isolations that are accepted by everybody, the program too.
    #[must_use]
    pub fn accepted(&self) -> IsolationSet {
        self.accepted
    }

    /// What the program cannot do without.
    #[must_use]
    pub fn needs(&self) -> &[Need] {
        &self.needs
    }

    /// Why a backend of this isolation is taken, in one line, after `against` was found.
    pub(super) fn reason(&self, isolation: Isolation, against: &[Rejected]) -> String {
        let language = &self.demand.language;
        let lightest = || format!("{isolation} is the lightest isolation that can run this {language} program");
        let need = self.needs.first().map(lacking).unwrap_or_default();
        match &self.why {
            Why::Only => format!("{isolation} is the only isolation accepted"),
            Why::Lightest if isolation == Isolation::Wasm || against.is_empty() => lightest(),
            Why::Lightest => format!("{}, and {isolation} can run it", listed(against)),
            Why::AsksForLess(line) => format!("line {line} asks for isolation wasm"),
            Why::Bound(bound) => format!("{bound} runs in a {isolation} only"),
            Why::AsksForContainer(line) if has(isolation) => format!("line {line} asks for isolation container"),
            Why::AsksForContainer(line) => {
                format!("line {line} asks for isolation container, and none can be had: {}", listed(against))
            }
            Why::Needs if has(isolation) => need,
            Why::Needs => format!("{need}, but no container can be had: {}", listed(against)),
            Why::Forbidden if self.needs.is_empty() => {
                "the policy forbids to leave wasm at the program's word".to_owned()
            }
            Why::Forbidden => format!("{need}, but the policy forbids to leave wasm for that"),
        }
    }

    /// Candidates that are not tried, and why.
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
                // What the containers lack is told first; this alone counts where they are not accepted.
                if self.order.is_empty() { ResultKind::InvalidRequest } else { ResultKind::EngineUnavailable },
                format!("{bound} needs a container"),
                "use --isolation container or auto".to_owned(),
            ),
            Why::AsksForLess(line) => rejected(
                ResultKind::EscalationRefused,
                format!("line {line} asks for isolation wasm"),
                "take the comment out".to_owned(),
            ),
            _ => Rejected::not_accepted(&candidate.backend, isolation, self.accepted),
        }
    }
}

/// What wasm lacks, and what was not asked for: nobody but the user says which package an import stands for.
fn lacking(need: &Need) -> String {
    let unnamed =
        need.package().map(|package| format!(", and no package that was asked for has (use --with {package})"));
    format!("{need}, which wasm does not have{}", unnamed.unwrap_or_default())
}

fn order(accepted: IsolationSet, why: &Why) -> Vec<Isolation> {
    let mut order: Vec<Isolation> = accepted.iter().collect();
    match why {
        Why::Bound(_) => order.retain(|isolation| has(*isolation)),
        // Stable: those that have what is needed come first, the lightest of them before the others.
        Why::Needs | Why::AsksForContainer(_) => order.sort_by_key(|isolation| !has(*isolation)),
        Why::Lightest | Why::Only | Why::AsksForLess(_) | Why::Forbidden => {}
    }
    order
}

fn listed(rejected: &[Rejected]) -> String {
    if rejected.is_empty() {
        return "this build has none".to_owned();
    }
    rejected.iter().map(Rejected::to_string).collect::<Vec<_>>().join("; ")
}
