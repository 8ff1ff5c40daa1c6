//! Where a program runs: in WebAssembly if that can serve, and else in a container.
//!
//! Everything here is pure. [`Wanted`] is what the program's needs, the caller and the policy come to before any backend was
//! asked; [`next`] then says, from what was found so far, which backend to ask or to take. So an engine's socket is touched
//! only when the answer can depend on it.
//!
//! ```text
//! Wanted::of(demand, needs, terms) ── next ──┬── Probe(backend) ── probe it ──┐
//!                                    ▲       ├── Run(choice)                  │
//!                                    │       └── Nothing(why)                 │
//!                                    └────────────────────────────────────────┘
//! ```
//!
//! - WebAssembly comes first where it can serve.
//! - What the program cannot do without, and WebAssembly does not have, puts containers first. If none can be had it runs in
//!   WebAssembly all the same, for it may get by, and the choice says what it would have needed.
//! - A policy that forbids escalation, and an isolation that was named, are never gone beyond.
//! - A command line and a container image run in containers only.
//! - The program's own word only asks: for less, or for what it prefers of what is accepted.

use codebox_analysis::Analyzer;
use codebox_core::{Backend, BackendId, Capabilities, Isolation, Job, Unavailable};

use crate::admission::Admitted;
use crate::needs::{Ask, BadAsk, Needs, Neighbours, needs_of};
use crate::router::{Choice, Demand, NoRoute, Rejected, weigh};

mod after;
mod lacks;
mod wanted;

pub use after::{After, after, mark_escalated, unmet};
pub use lacks::{has, lacks};
pub use wanted::{Escalation, Terms, Wanted};

/// A backend that may run the program, and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The backend.
    pub backend: BackendId,
    /// What it puts between guest and host, which is known before it is asked.
    pub isolation: Isolation,
    /// What its probe found; nothing while it has not been asked.
    pub found: Option<Result<Capabilities, Unavailable>>,
}

impl Candidate {
    /// A backend that has not been asked. One with an isolation's name gives that; any other is an engine of containers.
    #[must_use]
    pub fn of(backend: &dyn Backend) -> Self {
        let backend = backend.id();
        let isolation = backend.as_str().parse().unwrap_or(Isolation::Container);
        Self { backend, isolation, found: None }
    }
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Ask this backend, and then again.
    Probe(BackendId),
    /// Run in this one.
    Run(Choice),
    /// None can run the program.
    Nothing(NoRoute),
}

/// What follows from what is known of the candidates, the preferred one of each isolation first.
#[must_use]
pub fn next(wanted: &Wanted, candidates: &[Candidate]) -> Next {
    let mut against = Vec::new();
    let mut absent = Vec::new();
    for isolation in wanted.order() {
        let mut any = false;
        for candidate in candidates.iter().filter(|candidate| candidate.isolation == isolation) {
            any = true;
            let Some(found) = &candidate.found else { return Next::Probe(candidate.backend.clone()) };
            match weigh(wanted.demand(), &candidate.backend, found, wanted.accepted()) {
                Ok(given) => return Next::Run(choice(wanted, candidate, given, against, candidates)),
                Err(rejected) => against.push(rejected),
            }
        }
        if !any {
            absent.push(Rejected::absent(isolation));
        }
    }
    against.extend(absent);
    against.extend(wanted.passed_over(candidates));
    Next::Nothing(NoRoute { wanted: wanted.accepted(), rejected: against })
}

fn choice(
    wanted: &Wanted,
    candidate: &Candidate,
    isolation: Isolation,
    against: Vec<Rejected>,
    candidates: &[Candidate],
) -> Choice {
    let would_need = if has(isolation) { Vec::new() } else { wanted.needs().to_vec() };
    let reason = wanted.reason(isolation, &against);
    let mut rejected = against;
    rejected.extend(wanted.passed_over(candidates));
    Choice { backend: candidate.backend.clone(), isolation, reason, rejected, would_need }
}

/// Asks backends, the preferred one of each isolation first, until one can be taken.
///
/// Answers what was found too: candidates that nothing depended on have not been asked.
///
/// Those of `refused` have answered before, and turned out not to do.
///
/// # Errors
/// When none can run the program.
pub async fn choose(
    wanted: &Wanted,
    backends: &[&dyn Backend],
    refused: &[(BackendId, Unavailable)],
) -> (Vec<Candidate>, Result<Choice, NoRoute>) {
    let mut candidates: Vec<Candidate> = backends.iter().map(|backend| Candidate::of(*backend)).collect();
    for candidate in &mut candidates {
        let refusal = refused.iter().find(|(backend, _)| *backend == candidate.backend);
        candidate.found = refusal.map(|(_, why)| Err(why.clone()));
    }
    loop {
        let id = match next(wanted, &candidates) {
            Next::Run(choice) => return (candidates, Ok(choice)),
            Next::Nothing(why) => return (candidates, Err(why)),
            Next::Probe(id) => id,
        };
        for (candidate, backend) in candidates.iter_mut().zip(backends) {
            if candidate.backend == id && candidate.found.is_none() {
                candidate.found = Some(backend.probe().await);
            }
        }
    }
}

/// A program and what it needs, looked at once for both choices, tier and image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Looked {
    /// What it needs.
    pub needs: Needs,
    /// What it asks for.
    pub ask: Option<Ask>,
    /// The reason for which its needs are not known, in one line.
    pub unknown: Option<String>,
}

/// Looks at an admitted program, without running any of it. Waits for the analyzer, which may take a while over a hostile text.
///
/// # Errors
/// When a comment of its is meant for codebox and cannot be understood.
pub fn look(admitted: &Admitted, analyzer: &Analyzer) -> Result<Looked, BadAsk> {
    let mut looked = look_beside(admitted.job(), &Neighbours::of(admitted), analyzer)?;
    // Where its packages are had was decided by resolving them, and not by their names.
    looked.needs.powers.retain(|need| !need.is_met_by_packages(admitted.pure()));
    Ok(looked)
}

/// The same for a job that is complete as it is.
///
/// # Errors
/// As for [`look`].
pub fn look_at(job: &Job, analyzer: &Analyzer) -> Result<Looked, BadAsk> {
    look_beside(job, &Neighbours::of_job(job), analyzer)
}

fn look_beside(job: &Job, neighbours: &Neighbours, analyzer: &Analyzer) -> Result<Looked, BadAsk> {
    let ask = Ask::of_job(job)?;
    let (needs, unknown) = needs_of(job, neighbours, analyzer);
    Ok(Looked { needs, ask, unknown })
}

impl Wanted {
    /// What an admitted program wants, under a policy that allows escalation or not.
    #[must_use]
    pub fn of_admitted(admitted: &Admitted, looked: &Looked, escalation: Escalation) -> Self {
        let terms = Terms { acceptable: admitted.job().isolations, escalation, ask: looked.ask };
        Self::of(Demand::from(admitted), &looked.needs, &terms)
    }

    /// The same for a job that is complete as it is.
    #[must_use]
    pub fn of_job(job: &Job, looked: &Looked, escalation: Escalation) -> Self {
        let terms = Terms { acceptable: job.isolations, escalation, ask: looked.ask };
        Self::of(Demand::from(job), &looked.needs, &terms)
    }

    /// Whether the program may run in WebAssembly where no container can be had.
    #[must_use]
    pub fn can_do_without_container(&self) -> bool {
        self.accepted().contains(Isolation::Wasm) && self.demand().bound.is_none()
    }
}

#[cfg(test)]
mod tests;
