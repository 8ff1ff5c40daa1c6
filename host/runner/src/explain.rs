//! Explanation of the choices for a job, without running it.

use codebox_core::{Capabilities, Isolation, Language, ResultKind, RunnerError};
use codebox_service::choice::lacks;
use codebox_service::levels::LevelSetting;
use codebox_service::{
    Candidate, Choice, ImageChoice, Need, NoRoute, PlanError, Project, Rejected, Request, RouteStep, next,
};

use tracing::{Instrument as _, info_span};

use crate::offload::block_on;
use crate::pipeline::AdmittedJob;
use crate::runner::Runner;

/// Tier, image and needs of a job that has not been run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Choice of the backend, or the error with which a run would be refused.
    pub choice: Result<Choice, RunnerError>,
    /// Memory image from which the job would start in WebAssembly.
    pub image: Option<ImageChoice>,
    /// Notes about packages and the analysis, each in one line.
    pub notes: Vec<String>,
    /// Needs of the program.
    pub needs: Vec<Need>,
    /// Settings of the levels, the strongest first.
    pub levels: Vec<LevelSetting>,
    /// All backends, in the order of preference.
    pub tiers: Vec<TierReport>,
    /// Project whose files the program would get, with the entries that are left out.
    pub project: Option<Project>,
}

/// A backend, with the reason against it and the features that it lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierReport {
    /// Name of the backend.
    pub backend: String,
    /// Isolation that the backend provides.
    pub isolation: Isolation,
    /// True if the job would run in this backend.
    pub chosen: bool,
    /// True if the backend is available on this machine.
    pub available: bool,
    /// Reason against the backend.
    pub against: Option<String>,
    /// Remedy of that reason.
    pub fix: Option<String>,
    /// Features that the backend lacks, each in a few words.
    pub lacks: Vec<String>,
}

impl Runner {
    /// Explains where a job would run, and why. Probes every backend, and resolves the packages of the job.
    ///
    /// # Errors
    /// Returns an error if the request is not admitted, or its packages cannot be resolved.
    pub fn explain(&self, request: Request) -> Result<Explanation, RunnerError> {
        block_on(self.explain_async(request).instrument(info_span!("explain")))?
    }

    async fn explain_async(&self, request: Request) -> Result<Explanation, RunnerError> {
        let (request, target_note) = self.explain_target(request)?;
        let (admitted, packages) = self.with_packages(self.admit_for_analysis(request).await?).await?;
        let job = self.analyze_job(admitted).await?;
        let AdmittedJob { admitted, analysis, requirements, began: _ } = &job;
        let mut candidates = Vec::new();
        for backend in self.backends_for(admitted.engine())? {
            let found = Some(backend.probe().await);
            candidates.push(Candidate { found, ..Candidate::of(&*backend) });
        }
        let choice = match next(requirements, &candidates) {
            RouteStep::Run(choice) => Ok(choice),
            RouteStep::NoBackend(why) => Err(why),
            RouteStep::Probe(backend) => {
                let line = format!("backend {backend} did not respond to the probe");
                return Err(RunnerError::new(ResultKind::InternalError, line));
            }
        };
        let image = match &choice {
            Ok(choice) => {
                let plan = self.plan_of(admitted, analysis, choice.clone())?;
                (choice.isolation == Isolation::Wasm).then_some(plan.image)
            }
            Err(_) => None,
        };
        let tiers = candidates.iter().map(|candidate| {
            let lacking = |able: &Capabilities| {
                lacks(able, candidate.isolation, requirements.job_requirements(), &analysis.needs.powers)
            };
            let language = &requirements.job_requirements().language;
            tier(candidate, &choice, lacking, (!requirements.job_requirements().is_command()).then_some(language))
        });
        Ok(Explanation {
            tiers: tiers.collect(),
            image,
            notes: target_note.into_iter().chain(packages.notes).chain(analysis.unknown.clone()).collect(),
            needs: analysis.needs.powers.clone(),
            levels: admitted.levels().to_vec(),
            project: admitted.project().cloned(),
            choice: choice.map_err(|why| PlanError::from(why).into()),
        })
    }
}

fn tier(
    candidate: &Candidate,
    choice: &Result<Choice, NoRoute>,
    lacks: impl FnOnce(&Capabilities) -> Vec<String>,
    language: Option<&Language>,
) -> TierReport {
    let backend = candidate.backend.to_string();
    let rejected: &[Rejected] = match choice {
        Ok(choice) => &choice.rejected,
        Err(none) => &none.rejected,
    };
    let mut tier = TierReport {
        isolation: candidate.isolation,
        chosen: choice.as_ref().is_ok_and(|choice| choice.backend == candidate.backend),
        available: false,
        against: None,
        fix: None,
        lacks: Vec::new(),
        backend,
    };
    if let Some(against) = rejected.iter().find(|against| against.candidate == tier.backend) {
        (tier.against, tier.fix) = (Some(against.reason.clone()), Some(against.fix.clone()));
    }
    match &candidate.found {
        Some(Ok(able)) => {
            tier.available = true;
            tier.lacks = lacks(able);
            if let Some(language) = language.filter(|language| !tier.chosen && !able.languages.contains(language)) {
                tier.against.get_or_insert_with(|| format!("it does not run the language {language}"));
            }
        }
        Some(Err(why)) => (tier.against, tier.fix) = (Some(why.reason.clone()), Some(why.fix.clone())),
        None => {}
    }
    tier
}
