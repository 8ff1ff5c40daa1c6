//! Check of a backend against the demand of a job.
//!
//! The check is pure: the same demand and the same probe give the same result. An isolation that is not accepted is
//! never used, even if no other is available.

use std::fmt;

use codebox_core::{
    Backend, BackendId, Capabilities, Cpus, Isolation, IsolationSet, Language, LimitKind, ResultKind, Source, Support,
    Unavailable,
};
use thiserror::Error;

use crate::admission::Admitted;
use crate::needs::Need;

/// Reason that a job runs only in containers, independent of its needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerReason {
    /// The job is a command line.
    Command,
    /// The job names a container image.
    Image(String),
    /// The job runs in a container that codebox has not made.
    Attached(String),
    /// The job has a package, or requires a Python version, that WebAssembly does not support.
    Package(String),
    /// The job may use less than one processor, and WebAssembly runs one thread without a pause.
    PartOfProcessor(Cpus),
}

impl fmt::Display for ContainerReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command => f.write_str("a command line"),
            Self::Image(image) => write!(f, "the container image {image}"),
            Self::Attached(origin) => f.write_str(origin),
            Self::PartOfProcessor(cpus) => write!(f, "a limit of {cpus} processors"),
            Self::Package(package) => write!(f, "package {package}, which is not available in WebAssembly,"),
        }
    }
}

/// Demand of a job on its backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRequirements {
    /// Language of the program.
    pub language: Language,
    /// Limits that the backend must enforce.
    pub limits: Vec<LimitKind>,
    /// True if the job has grants of network hosts.
    pub has_hosts: bool,
    /// True if the job uses secrets by placeholders.
    pub has_secrets: bool,
    /// True if the job runs in a container that codebox has not made.
    pub is_attached: bool,
    /// Reason that the job runs only in containers.
    pub bound: Option<ContainerReason>,
}

impl JobRequirements {
    /// Returns true if the job is a command line, which has no language.
    #[must_use]
    pub fn is_command(&self) -> bool {
        self.bound == Some(ContainerReason::Command)
    }
}

impl From<&Admitted> for JobRequirements {
    fn from(admitted: &Admitted) -> Self {
        let job = admitted.job();
        Self {
            language: job.language.clone(),
            limits: admitted.required_limits().to_vec(),
            has_hosts: !job.grants.net.is_empty(),
            has_secrets: !job.grants.secrets.is_empty(),
            is_attached: admitted.attachment().is_some(),
            bound: match (&job.source, admitted.container_image()) {
                (Source::Command(_), _) => Some(ContainerReason::Command),
                _ if let Some(attachment) = admitted.attachment() => {
                    Some(ContainerReason::Attached(attachment.origin.clone()))
                }
                (_, Some(image)) => Some(ContainerReason::Image(image.to_string())),
                _ => {
                    let package = admitted.native().map(|package| ContainerReason::Package(package.to_owned()));
                    let part = || job.cpus.filter(|cpus| cpus.is_part_of_one()).map(ContainerReason::PartOfProcessor);
                    package.or_else(part)
                }
            },
        }
    }
}

/// A backend that may run the program, and the result of its probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The backend.
    pub backend: BackendId,
    /// Isolation that the backend provides, which is known before it is probed.
    pub isolation: Isolation,
    /// Result of the probe; `None` until the backend is probed.
    pub found: Option<Result<Capabilities, Unavailable>>,
}

impl Candidate {
    /// Creates a candidate that has not been probed.
    #[must_use]
    pub fn of(backend: &dyn Backend) -> Self {
        Self { backend: backend.id(), isolation: backend.isolation(), found: None }
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
#[error("no backend can run this program with isolation {wanted}: {}", listed(.rejected))]
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
        self.primary_rejection().map_or(ResultKind::EngineUnavailable, |rejected| rejected.kind)
    }

    /// Returns the remedy.
    #[must_use]
    pub fn fix(&self) -> String {
        self.primary_rejection().map_or_else(|| "see codebox doctor".to_owned(), |rejected| rejected.fix.clone())
    }

    fn primary_rejection(&self) -> Option<&Rejected> {
        let own_fault = |r: &&Rejected| r.kind != ResultKind::EngineUnavailable;
        let accepted = |r: &&Rejected| r.kind != ResultKind::EscalationRefused;
        let mut wanted = self.rejected.iter().filter(accepted);
        wanted.clone().find(own_fault).or_else(|| wanted.next())
    }
}

fn listed(rejected: &[Rejected]) -> String {
    let lines: Vec<String> = rejected.iter().map(Rejected::to_string).collect();
    if lines.is_empty() {
        return "this build has no backend for it".to_owned();
    }
    lines.join("; ")
}

/// Checks that a probed candidate meets the demand with an accepted isolation.
pub(crate) fn check_candidate(
    job_requirements: &JobRequirements,
    Candidate { backend, isolation, .. }: &Candidate,
    found: &Result<Capabilities, Unavailable>,
    acceptable: IsolationSet,
) -> Result<(), Rejected> {
    let isolation = *isolation;
    let against =
        |kind, reason: String, fix: String| Err(Rejected { candidate: backend.to_string(), kind, reason, fix });
    let able = match found {
        Ok(able) => able,
        Err(Unavailable { reason, fix }) => {
            return against(ResultKind::EngineUnavailable, reason.clone(), fix.clone());
        }
    };
    if !acceptable.contains(isolation) {
        return Err(Rejected::not_accepted(backend, isolation, acceptable));
    }
    let JobRequirements { language, limits, has_hosts, has_secrets, is_attached, bound } = job_requirements;
    if let Some(bound) = bound.as_ref().filter(|_| isolation == Isolation::Wasm) {
        return against(
            ResultKind::InvalidRequest,
            format!("{bound} requires a container"),
            "use --isolation container or auto".to_owned(),
        );
    }
    let is_named = *is_attached || matches!(bound, Some(ContainerReason::Image(_)));
    if let Some(image) = able.forbidden.get(language).filter(|_| !is_named) {
        return against(
            ResultKind::Denied,
            format!("image {image}, the default for {language}, is not allowed by the configuration"),
            format!("add it to images.allowed, or set images.{language} to one that is allowed"),
        );
    }
    if !job_requirements.is_command() && !able.languages.contains(language) {
        return against(
            ResultKind::EngineUnavailable,
            format!("it does not support {language}"),
            "see codebox runtime list".to_owned(),
        );
    }
    if let Some(limit) = able.first_unenforced(limits.iter().copied()) {
        return against(
            ResultKind::InvalidRequest,
            format!("it cannot enforce the {limit} limit"),
            format!("remove the {limit} limit, or set it to unlimited"),
        );
    }
    if *has_secrets && isolation != Isolation::Wasm {
        return against(
            ResultKind::InvalidRequest,
            "it cannot keep secrets from the program".to_owned(),
            "remove --secret, or pass the value with --env, which shows it to the program".to_owned(),
        );
    }
    let offline = able.network_filter == Support::No || able.offline.contains(language);
    if *has_hosts && offline {
        return against(
            ResultKind::InvalidRequest,
            "it has no network access".to_owned(),
            "remove the network grants".to_owned(),
        );
    }
    Ok(())
}

impl Rejected {
    /// Rejects a backend whose isolation is not accepted.
    pub(crate) fn not_accepted(backend: &BackendId, isolation: Isolation, acceptable: IsolationSet) -> Self {
        Self {
            candidate: backend.to_string(),
            kind: ResultKind::EscalationRefused,
            reason: format!("it provides isolation {isolation}, but only {acceptable} is allowed"),
            fix: format!("use --isolation {isolation} or auto"),
        }
    }

    /// Rejects an isolation that no backend of this build provides.
    pub(crate) fn absent(isolation: Isolation) -> Self {
        Self {
            candidate: isolation.to_string(),
            kind: ResultKind::EngineUnavailable,
            reason: format!("no {isolation} backend in this build"),
            fix: "leave --isolation out, or use another one".to_owned(),
        }
    }
}
