//! Choice of the isolation and backend for a program: WebAssembly if it meets the program's needs, and otherwise a
//! container.
//!
//! The decision is pure. [`TierRequirements`] combines the program's needs, the caller's terms and the policy before any
//! backend is probed. [`next`] then selects the backend to probe or to use, from the results of the probes so far. An
//! engine's socket is therefore opened only if the result can depend on it.
//!
//! ```text
//! requirements ──► next ──┬──► Probe(backend) ── probe it ──┐
//!                   ▲     ├──► Run(choice)                  │
//!                   │     └──► NoBackend(reasons)           │
//!                   └───────────────────────────────────────┘
//! ```
//!
//! - WebAssembly comes first if it meets the program's needs.
//! - A required need that WebAssembly does not meet puts containers first. If no container is available, the program
//!   runs in WebAssembly nevertheless, because it may not reach that code, and the choice lists the unmet needs.
//! - A policy that forbids escalation and an isolation that the user named are always followed.
//! - A command line and a container image run only in containers.
//! - A program's own comment is only a request: for fewer isolations, or for a preferred one among the accepted ones.

use codebox_analysis::Analyzer;
use codebox_core::{Backend, BackendId, Isolation, Unavailable};

use crate::admission::{Admitted, Escalation};
use crate::levels;
use crate::needs::{InvalidIsolationRequest, IsolationRequest, LocalModules, Needs, needs_of};
use crate::router::{Candidate, Choice, JobRequirements, NoRoute, Rejected, check_candidate};

mod escalation;
mod lacks;
mod requirements;

pub use escalation::{
    EscalationDecision, decide_escalation, escalation_hint, mark_escalated, mark_rerun_with_all_code, missing_code,
};
use lacks::has;
pub use lacks::lacks;
use requirements::RoutingConstraints;
pub use requirements::TierRequirements;

/// Next step of the choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteStep {
    /// Probe this backend, and then decide again.
    Probe(BackendId),
    /// Run the program in this backend.
    Run(Choice),
    /// No backend can run the program.
    NoBackend(NoRoute),
}

/// Returns the next step, from the results of the probes so far. The preferred candidate of each isolation comes first.
#[must_use]
pub fn next(requirements: &TierRequirements, candidates: &[Candidate]) -> RouteStep {
    let mut against = Vec::new();
    let mut absent = Vec::new();
    for isolation in requirements.order() {
        let mut any = false;
        for candidate in candidates.iter().filter(|candidate| candidate.isolation == isolation) {
            any = true;
            let Some(found) = &candidate.found else { return RouteStep::Probe(candidate.backend.clone()) };
            match check_candidate(requirements.job_requirements(), candidate, found, requirements.accepted()) {
                Ok(()) => return RouteStep::Run(choice(requirements, candidate, against, candidates)),
                Err(rejected) => against.push(rejected),
            }
        }
        if !any {
            absent.push(Rejected::absent(isolation));
        }
    }
    against.extend(absent);
    against.extend(requirements.skipped_candidates(candidates));
    RouteStep::NoBackend(NoRoute { wanted: requirements.accepted(), rejected: against })
}

fn choice(
    requirements: &TierRequirements,
    candidate: &Candidate,
    against: Vec<Rejected>,
    candidates: &[Candidate],
) -> Choice {
    let isolation = candidate.isolation;
    let would_need = if has(isolation) { Vec::new() } else { requirements.needs().to_vec() };
    let reason = requirements.reason(isolation, &against);
    let mut rejected = against;
    rejected.extend(requirements.skipped_candidates(candidates));
    Choice { backend: candidate.backend.clone(), isolation, reason, rejected, would_need }
}

/// Probes backends, the preferred one of each isolation first, until one can be used.
///
/// Also returns all candidates; those that could not change the result have not been probed.
///
/// The backends in `refused` have been probed before and turned out to be unusable.
///
/// # Errors
/// Returns an error if no backend can run the program.
pub async fn choose(
    requirements: &TierRequirements,
    backends: &[&dyn Backend],
    refused: &[(BackendId, Unavailable)],
) -> (Vec<Candidate>, Result<Choice, NoRoute>) {
    let mut candidates: Vec<Candidate> = backends.iter().map(|backend| Candidate::of(*backend)).collect();
    for candidate in &mut candidates {
        let refusal = refused.iter().find(|(backend, _)| *backend == candidate.backend);
        candidate.found = refusal.map(|(_, why)| Err(why.clone()));
    }
    loop {
        let id = match next(requirements, &candidates) {
            RouteStep::Run(choice) => return (candidates, Ok(choice)),
            RouteStep::NoBackend(why) => return (candidates, Err(why)),
            RouteStep::Probe(id) => id,
        };
        for (candidate, backend) in candidates.iter_mut().zip(backends) {
            if candidate.backend == id && candidate.found.is_none() {
                candidate.found = Some(backend.probe().await);
            }
        }
    }
}

/// Analysis of a program, which the choices of both the tier and the image use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProgramAnalysis {
    /// Needs of the program.
    pub needs: Needs,
    /// Request in a comment of the program.
    pub isolation_request: Option<IsolationRequest>,
    /// Reason that the needs are unknown, in one line.
    pub unknown: Option<String>,
}

/// Analyzes an admitted program without running any of it. Blocks until the analyzer has finished, which may take long
/// for a hostile text.
///
/// # Errors
/// Returns an error if a comment for codebox in the program is invalid.
pub fn analyze_program(admitted: &Admitted, analyzer: &Analyzer) -> Result<ProgramAnalysis, InvalidIsolationRequest> {
    let job = admitted.job();
    let isolation_request = IsolationRequest::of_job(job)?;
    let (needs, unknown) = needs_of(job, &LocalModules::of(job, admitted.path_map()), analyzer);
    let mut analysis = ProgramAnalysis { needs, isolation_request, unknown };
    // Resolving the job's packages has already decided which of them WebAssembly has, so their import names do not
    // count.
    analysis.needs.powers.retain(|need| !need.is_satisfied_by_packages(admitted.pure()));
    Ok(analysis)
}

impl TierRequirements {
    /// Combines the requirements of an admitted program, under a policy that allows or forbids escalation.
    #[must_use]
    pub fn for_admitted(admitted: &Admitted, analysis: &ProgramAnalysis, escalation: Escalation) -> Self {
        let constraints = RoutingConstraints {
            acceptable: admitted.job().isolations,
            escalation,
            isolation_request: analysis.isolation_request,
            preferred: levels::preferred(admitted.levels(), admitted.job().isolations, escalation),
        };
        Self::of(JobRequirements::from(admitted), &analysis.needs, &constraints)
    }

    /// Returns true if the program may run in WebAssembly when no container is available.
    #[must_use]
    pub fn can_do_without_container(&self) -> bool {
        self.accepted().contains(Isolation::Wasm) && self.job_requirements().bound.is_none()
    }
}

#[cfg(test)]
mod tests;
