//! Selection of the backend for a job.
//!
//! The selection is pure: the same demand and the same probes give the same choice, with the reason against every
//! rejected candidate. An isolation that is not accepted is never used, even if no other is available.

use std::fmt;

use codebox_core::{
    Backend, BackendId, Capabilities, Isolation, IsolationSet, Job, Language, LimitKind, Limits, ResultKind, Source,
    Support, Unavailable,
};
use thiserror::Error;

use crate::admission::Admitted;
use crate::needs::Need;

/// A backend and the result of its probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probed {
    /// The backend.
    pub backend: BackendId,
    /// Capabilities of the backend on this machine, or the reason that it cannot be used.
    pub found: Result<Capabilities, Unavailable>,
}

/// Probes the capabilities of a backend.
pub async fn probe(backend: &dyn Backend) -> Probed {
    Probed { backend: backend.id(), found: backend.probe().await }
}

/// Network access of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    /// No network access.
    #[default]
    None,
    /// Connections to the granted hosts only.
    Hosts,
}

/// Reason that a job runs only in containers, independent of its needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// The job is a command line.
    Command,
    /// The job names a container image.
    Image(String),
    /// The job has a package, or requires a Python version, that WebAssembly does not support.
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

/// Demand of a job on its backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// Language of the program.
    pub language: Language,
    /// Limits that the backend must enforce.
    pub limits: Vec<LimitKind>,
    /// Network access of the job.
    pub network: Network,
    /// Reason that the job runs only in containers.
    pub bound: Option<Bound>,
}

impl Demand {
    /// Returns true if the job is a command line, which has no language.
    #[must_use]
    pub fn is_command(&self) -> bool {
        self.bound == Some(Bound::Command)
    }
}

impl From<&Job> for Demand {
    /// Returns the demand of a complete job. Limits that differ from the built-in defaults must be enforced.
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

/// A candidate that was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Name of the backend, or of the isolation that no backend provides.
    pub candidate: String,
    /// Result kind of the failure if no other candidate fits.
    pub kind: ResultKind,
    /// Reason for the rejection.
    pub reason: String,
    /// Remedy.
    pub fix: String,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.candidate, self.reason)
    }
}

/// Selected backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The backend.
    pub backend: BackendId,
    /// Isolation that the backend provides.
    pub isolation: Isolation,
    /// Reason for the selection, in one line.
    pub reason: String,
    /// Rejected candidates.
    pub rejected: Vec<Rejected>,
    /// Required needs of the program that the backend does not meet.
    pub would_need: Vec<Need>,
}

/// No backend can run the job.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no backend can run this with isolation {wanted}: {}", listed(.rejected))]
pub struct NoRoute {
    /// Isolations that were accepted.
    pub wanted: IsolationSet,
    /// All candidates, with the reasons.
    pub rejected: Vec<Rejected>,
}

impl NoRoute {
    /// Returns the result kind: that of a fault in the request if there is one, and otherwise that of the first missing
    /// backend.
    #[must_use]
    pub fn kind(&self) -> ResultKind {
        self.telling().map_or(ResultKind::EngineUnavailable, |rejected| rejected.kind)
    }

    /// Returns the remedy.
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

/// Selects the lightest accepted isolation whose backend meets the demand.
///
/// # Errors
/// Returns an error with every rejected candidate if no backend meets the demand.
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
    // The sort is stable, so the first probed backend wins among equals.
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

/// Returns the isolation that a candidate provides, or the reason for its rejection.
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
    /// Rejects a backend whose isolation is not accepted.
    pub(crate) fn not_accepted(backend: &BackendId, isolation: Isolation, acceptable: IsolationSet) -> Self {
        Self {
            candidate: backend.to_string(),
            kind: ResultKind::EscalationRefused,
            reason: format!("it gives isolation {isolation}, and only {acceptable} is accepted"),
            fix: format!("use --isolation {isolation} or auto"),
        }
    }

    /// Rejects an isolation that no backend of this build provides.
    pub(crate) fn absent(isolation: Isolation) -> Self {
        Self {
            candidate: isolation.to_string(),
            kind: ResultKind::EngineUnavailable,
            reason: format!("no {isolation} backend in this build"),
            fix: "use --isolation wasm or auto".to_owned(),
        }
    }
}

/// Returns the accepted isolations that no backend of this build provides.
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
            // A backend that failed its probe is already listed with the reason.
            !offered.contains(isolation) && !unknown.contains(&isolation.as_str())
        })
        .map(Rejected::absent)
        .collect::<Vec<_>>()
        .into_iter()
}

#[cfg(test)]
mod tests;
