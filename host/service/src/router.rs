//! Which backend runs a job.
//!
//! The choice is pure: the same demand and the same probes give the same answer, with the reason against every
//! candidate that was passed over. An isolation that was not accepted is never taken, whatever is missing.

use std::fmt;

use codebox_core::{
    Backend, BackendId, Capabilities, Isolation, IsolationSet, Job, Language, LimitKind, Limits, ResultKind, Source,
    Support, Unavailable,
};
use thiserror::Error;

use crate::admission::Admitted;
use crate::needs::Need;

/// A backend and what its probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probed {
    /// The backend.
    pub backend: BackendId,
    /// What it can do here, or why it cannot be used.
    pub found: Result<Capabilities, Unavailable>,
}

/// Asks a backend what it can do.
pub async fn probe(backend: &dyn Backend) -> Probed {
    Probed { backend: backend.id(), found: backend.probe().await }
}

/// Whether a job may reach the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    /// It may not.
    #[default]
    None,
    /// It may connect to the hosts that were granted, and no other.
    Hosts,
}

/// What ties a job to containers, whatever it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// It is a command line.
    Command,
    /// It names a container's image.
    Image(String),
    /// WebAssembly cannot have a package, or the Python that is asked for.
    Package(String),
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command => f.write_str("a command line"),
            Self::Image(image) => write!(f, "the container image {image}"),
            Self::Package(package) => write!(f, "{package}, which wasm cannot have,"),
        }
    }
}

/// What a job demands of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// Its language.
    pub language: Language,
    /// The limits that must be held.
    pub limits: Vec<LimitKind>,
    /// Whether it may reach the network.
    pub network: Network,
    /// What ties it to containers.
    pub bound: Option<Bound>,
}

impl Demand {
    /// Whether the job is a command line, which has no language.
    #[must_use]
    pub fn is_command(&self) -> bool {
        self.bound == Some(Bound::Command)
    }
}

impl From<&Job> for Demand {
    /// What a job demands that is complete as it is. Of its limits those must be held that are not the built-in ones.
    fn from(job: &Job) -> Self {
        let changed = |kind: &LimitKind| job.limits.is_limited(*kind) && !job.limits.agrees(&Limits::default(), *kind);
        Self {
            language: job.language.clone(),
            limits: LimitKind::ALL.into_iter().filter(changed).collect(),
            network: if job.grants.net.is_empty() { Network::None } else { Network::Hosts },
            bound: matches!(job.source, Source::Command(_)).then_some(Bound::Command),
        }
    }
}

impl From<&Admitted> for Demand {
    fn from(admitted: &Admitted) -> Self {
        let job = admitted.job();
        Self {
            language: job.language.clone(),
            limits: admitted.required_limits().to_vec(),
            network: if job.grants.net.is_empty() { Network::None } else { Network::Hosts },
            bound: match (&job.source, admitted.container_image()) {
                (Source::Command(_), _) => Some(Bound::Command),
                (_, Some(image)) => Some(Bound::Image(image.to_string())),
                _ => admitted.native().map(|package| Bound::Package(package.to_owned())),
            },
        }
    }
}

/// A candidate that was passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The backend, or the isolation that no backend offers.
    pub candidate: String,
    /// What kind of failure it would be if nothing else were there.
    pub kind: ResultKind,
    /// Why.
    pub reason: String,
    /// What to do.
    pub fix: String,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.candidate, self.reason)
    }
}

/// The backend to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The backend.
    pub backend: BackendId,
    /// The isolation that it gives.
    pub isolation: Isolation,
    /// Why it was chosen, in one line.
    pub reason: String,
    /// What was passed over.
    pub rejected: Vec<Rejected>,
    /// What the program cannot do without and will not have there.
    pub would_need: Vec<Need>,
}

/// No backend can run the job.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no backend can run this with isolation {wanted}: {}", listed(.rejected))]
pub struct NoRoute {
    /// The isolations that were accepted.
    pub wanted: IsolationSet,
    /// Every candidate.
    pub rejected: Vec<Rejected>,
}

impl NoRoute {
    /// The one word for it: what the request got wrong, if anything, and else what the machine lacks.
    #[must_use]
    pub fn kind(&self) -> ResultKind {
        self.telling().map_or(ResultKind::EngineUnavailable, |rejected| rejected.kind)
    }

    /// What to do.
    #[must_use]
    pub fn fix(&self) -> String {
        self.telling().map_or_else(|| "see codebox doctor".to_owned(), |rejected| rejected.fix.clone())
    }

    fn telling(&self) -> Option<&Rejected> {
        let own_fault = |r: &&Rejected| r.kind != ResultKind::EngineUnavailable;
        let accepted = |r: &&Rejected| r.kind != ResultKind::EscalationRefused;
        let mut wanted = self.rejected.iter().filter(accepted);
        wanted.clone().find(own_fault).or_else(|| wanted.next())
    }
}

fn listed(rejected: &[Rejected]) -> String {
    let lines: Vec<String> = rejected.iter().map(Rejected::to_string).collect();
    if lines.is_empty() {
        return "this build has none".to_owned();
    }
    lines.join("; ")
}

/// Chooses the lightest accepted isolation whose backend meets the demand.
///
/// # Errors
/// When there is none; says why not for each.
pub fn route(demand: &Demand, probed: &[Probed], acceptable: IsolationSet) -> Result<Choice, NoRoute> {
    let mut rejected = Vec::new();
    let mut fitting = Vec::new();
    for candidate in probed {
        match weigh(demand, &candidate.backend, &candidate.found, acceptable) {
            Ok(isolation) => fitting.push((isolation, candidate)),
            Err(reason) => rejected.push(reason),
        }
    }
    rejected.extend(absent(probed, acceptable));
    // Stable, so that among equals the first probed wins.
    fitting.sort_by_key(|(isolation, _)| *isolation);
    let Some((isolation, chosen)) = fitting.first() else {
        return Err(NoRoute { wanted: acceptable, rejected });
    };
    Ok(Choice {
        backend: chosen.backend.clone(),
        isolation: *isolation,
        reason: reason(*isolation, demand, acceptable),
        rejected,
        would_need: Vec::new(),
    })
}

fn reason(isolation: Isolation, demand: &Demand, acceptable: IsolationSet) -> String {
    if acceptable == IsolationSet::only(isolation) {
        return format!("{isolation} is the only isolation accepted");
    }
    let language = &demand.language;
    format!("{isolation} is the lightest isolation that can run this {language} program")
}

/// The isolation that a candidate gives, or why it does not do.
pub(crate) fn weigh(
    demand: &Demand,
    backend: &BackendId,
    found: &Result<Capabilities, Unavailable>,
    acceptable: IsolationSet,
) -> Result<Isolation, Rejected> {
    let against =
        |kind, reason: String, fix: String| Err(Rejected { candidate: backend.to_string(), kind, reason, fix });
    let able = match found {
        Ok(able) => able,
        Err(Unavailable { reason, fix }) => {
            return against(ResultKind::EngineUnavailable, reason.clone(), fix.clone());
        }
    };
    let isolation = able.isolation;
    if !acceptable.contains(isolation) {
        return Err(Rejected::not_accepted(backend, isolation, acceptable));
    }
    let Demand { language, limits, network, bound } = demand;
    if let Some(bound) = bound.as_ref().filter(|_| isolation == Isolation::Wasm) {
        return against(
            ResultKind::InvalidRequest,
            format!("{bound} needs a container"),
            "use --isolation container or auto".to_owned(),
        );
    }
    let is_named = matches!(bound, Some(Bound::Image(_)));
    if let Some(image) = able.forbidden.get(language).filter(|_| !is_named) {
        return against(
            ResultKind::Denied,
            format!("the configuration does not allow {image}, which {language} starts from"),
            format!("add it to images.allowed, or set images.{language} to one that is allowed"),
        );
    }
    if !demand.is_command() && !able.languages.contains(language) {
        return against(
            ResultKind::EngineUnavailable,
            format!("it does not run {language}"),
            "see codebox runtime list".to_owned(),
        );
    }
    if let Some(limit) = able.first_unheld(limits.iter().copied()) {
        return against(
            ResultKind::InvalidRequest,
            format!("it cannot hold the {limit} limit"),
            format!("leave the {limit} limit out, or set it to unlimited"),
        );
    }
    let offline = able.network_filter == Support::No || able.offline.contains(language);
    if *network == Network::Hosts && offline {
        return against(
            ResultKind::InvalidRequest,
            "it has no network".to_owned(),
            "leave the network grants out".to_owned(),
        );
    }
    Ok(isolation)
}

impl Rejected {
    /// A backend whose isolation nobody accepts.
    pub(crate) fn not_accepted(backend: &BackendId, isolation: Isolation, acceptable: IsolationSet) -> Self {
        Self {
            candidate: backend.to_string(),
            kind: ResultKind::EscalationRefused,
            reason: format!("it gives isolation {isolation}, and only {acceptable} is accepted"),
            fix: format!("use --isolation {isolation} or auto"),
        }
    }

    /// An isolation that no backend of this build gives.
    pub(crate) fn absent(isolation: Isolation) -> Self {
        Self {
            candidate: isolation.to_string(),
            kind: ResultKind::EngineUnavailable,
            reason: format!("no {isolation} backend in this build"),
            fix: "use --isolation wasm or auto".to_owned(),
        }
    }
}

/// Isolations that are accepted and that no backend of this build gives.
fn absent(probed: &[Probed], acceptable: IsolationSet) -> impl Iterator<Item = Rejected> {
    let offered: Vec<Isolation> =
        probed.iter().filter_map(|candidate| Some(candidate.found.as_ref().ok()?.isolation)).collect();
    let unknown: Vec<&str> = probed
        .iter()
        .filter(|candidate| candidate.found.is_err())
        .map(|candidate| candidate.backend.as_str())
        .collect();
    acceptable
        .iter()
        .filter(move |isolation| {
            // A backend that could not be probed says for itself why it is missing.
            !offered.contains(isolation) && !unknown.contains(&isolation.as_str())
        })
        .map(Rejected::absent)
        .collect::<Vec<_>>()
        .into_iter()
}

#[cfg(test)]
mod tests;
