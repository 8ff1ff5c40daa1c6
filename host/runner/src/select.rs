//! Analysis of a program, and choice of the backend and the image for it.

use std::sync::Arc;
use std::time::Instant;

use codebox_core::{
    Backend, BackendId, CodeScope, Isolation, Language, Preparation, ResultKind, RunnerError, Unavailable,
};
use codebox_service::catalog::{Catalog, ImageEntry, ImageOrigin};
use codebox_service::image_choice::{ImageFacts, NoImage};
use codebox_service::{
    Admitted, Candidate, Choice, Plan, PlanError, ProgramAnalysis, RouteStep, analyze_program, choose, is_analyzed,
    next, plan,
};

use tracing::field::Empty;
use tracing::info_span;

use crate::open::spec_of;
use crate::pipeline::AdmittedJob;
use crate::runner::Runner;
use crate::spans;

impl Runner {
    /// Analyzes the needs of a job's program, and meanwhile loads the runtime's code, which does not depend on them.
    pub(crate) async fn analyze(&self, admitted: &Arc<Admitted>) -> Result<ProgramAnalysis, RunnerError> {
        let analyzer = self.parts.analyzer.get()?;
        let job = admitted.job();
        if !is_analyzed(job) {
            return Ok(analyze_program(admitted, analyzer).map_err(PlanError::from)?);
        }
        // The analysis of a hostile text may take long.
        let work = {
            let (admitted, analyzer) = (Arc::clone(admitted), analyzer.clone());
            move || analyze_program(&admitted, &analyzer)
        };
        let analyzing = self.parts.threads.start(work)?;
        if self.is_single_job() && job.isolations.contains(Isolation::Wasm) && admitted.container_image().is_none() {
            self.backends()?.iter().for_each(|backend| backend.preload(job));
        }
        let analysis = analyzing.finish().await?.map_err(PlanError::from)?;
        analysis.unknown.iter().for_each(|why| self.parts.progress.detail(why));
        Ok(analysis)
    }

    /// Returns all backends as candidates. Those whose capabilities never change have been probed.
    async fn candidates(&self) -> Result<&[Candidate], RunnerError> {
        let create = async || {
            let mut candidates = Vec::new();
            for backend in self.backends()? {
                let mut candidate = Candidate::of(&*backend);
                if candidate.isolation == Isolation::Wasm {
                    candidate.found = Some(backend.probe().await);
                }
                candidates.push(candidate);
            }
            Ok(candidates)
        };
        self.candidates.get_or_try_init(create).await.map(Vec::as_slice)
    }

    /// Chooses the backend and the image of a job, and pulls the image if it runs in a container.
    pub(crate) async fn select(&self, job: &AdmittedJob) -> Result<(Plan, Arc<dyn Backend>), RunnerError> {
        let span = info_span!("select", backend = Empty, outcome = Empty);
        let selected = async {
            match self.plan_in_wasm(job).await? {
                Some(selected) => Ok(selected),
                None => self.plan_anywhere(job).await,
            }
        };
        let (plan, backend) = spans::stage(span.clone(), selected).await?;
        span.record("backend", plan.choice.backend.as_str());
        Ok((plan, backend))
    }

    /// Chooses the backend and the image of a job that runs in WebAssembly; `None` if other backends have to be probed.
    async fn plan_in_wasm(&self, job: &AdmittedJob) -> Result<Option<(Plan, Arc<dyn Backend>)>, RunnerError> {
        let AdmittedJob { admitted, analysis, requirements, began } = job;
        if requirements.order().next() != Some(Isolation::Wasm) {
            return Ok(None);
        }
        let all = self.candidates().await?;
        let narrowed: Vec<Candidate>;
        let candidates = match admitted.engine() {
            None => all,
            Some(engine) => {
                narrowed =
                    all.iter().filter(|one| is_candidate(one.isolation, &one.backend, engine)).cloned().collect();
                &narrowed
            }
        };
        match next(requirements, candidates) {
            RouteStep::Run(choice) => {
                let plan = self.plan_of(admitted, analysis, choice)?;
                self.explain_choice(&plan.choice, *began);
                let backend = self.backend(&plan.choice.backend)?;
                Ok(Some((plan, backend)))
            }
            RouteStep::Probe(_) | RouteStep::NoBackend(_) => Ok(None),
        }
    }

    /// Chooses the backend and the image, and pulls the image of a container.
    ///
    /// A job that can also run without a container uses the next backend if the image cannot be pulled.
    async fn plan_anywhere(&self, job: &AdmittedJob) -> Result<(Plan, Arc<dyn Backend>), RunnerError> {
        let AdmittedJob { admitted, analysis, requirements, began } = job;
        let backends = self.backends_for(admitted.engine())?;
        let all: Vec<&dyn Backend> = backends.iter().map(|backend| &**backend).collect();
        let mut refused = Vec::new();
        loop {
            let (_, choice) = choose(requirements, &all, &refused).await;
            let plan = self.plan_of(admitted, analysis, choice.map_err(PlanError::from)?)?;
            self.explain_choice(&plan.choice, *began);
            let backend = self.backend(&plan.choice.backend)?;
            let pulls = plan.choice.isolation != Isolation::Wasm && admitted.attachment().is_none();
            let ensured = match backend.image_store().filter(|_| pulls) {
                Some(store) => {
                    let spec = spec_of(admitted, &plan, Vec::new(), CodeScope::Image);
                    let span = info_span!("ensure_image", image = spec.image, outcome = Empty);
                    let ensured = async { Ok(store.ensure(&spec, &*self.parts.progress).await?) };
                    spans::stage(span, ensured).await
                }
                None => Ok(()),
            };
            match ensured {
                Ok(()) => return Ok((plan, backend)),
                Err(error) if requirements.can_do_without_container() => {
                    self.parts.progress.note(&format!("{}: {}", plan.choice.backend, error.message()));
                    let fix = "see codebox doctor".to_owned();
                    let why = Unavailable { reason: error.message().to_owned(), fix };
                    // A virtual machine is not started for an image that the engine of this machine could not pull.
                    let is_pull = error.kind() == ResultKind::ImageError;
                    let machines = all.iter().filter(|backend| is_pull && backend.isolation() == Isolation::Vm);
                    refused.extend(machines.map(|backend| (backend.id(), why.clone())));
                    refused.push((plan.choice.backend, why));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn explain_choice(&self, choice: &Choice, began: Instant) {
        let progress = &self.parts.progress;
        progress.detail(&format!("program analyzed and backend selected in {} µs", began.elapsed().as_micros()));
        for other in &choice.rejected {
            progress.detail(&format!("rejected {}: {}", other.candidate, other.reason));
        }
    }

    /// Chooses the image for a choice of backend.
    pub(crate) fn plan_of(
        &self,
        admitted: &Admitted,
        analysis: &ProgramAnalysis,
        choice: Choice,
    ) -> Result<Plan, RunnerError> {
        let configured = admitted.default_image().filter(|_| choice.isolation == Isolation::Wasm);
        let has_imports = choice.isolation == Isolation::Wasm && !analysis.needs.imports.is_empty();
        // The default image is chosen without a list, and other isolations bring their own runtimes.
        let lists = admitted.image().is_some() || configured.is_some() || has_imports;
        let facts = if lists { self.image_facts(&admitted.job().language)? } else { Arc::default() };
        if let Some(name) = configured {
            self.check_configured_image(name, &facts)?;
        }
        Ok(plan(admitted, analysis, choice, &facts)?)
    }

    /// Refuses a configured image that no language has. `facts` has the images of the program's language.
    fn check_configured_image(&self, name: &str, facts: &[ImageFacts]) -> Result<(), RunnerError> {
        if facts.iter().any(|image| image.name == name) {
            return Ok(());
        }
        let known: Vec<String> = self.parts.catalog.get()?.images(None)?.into_iter().map(|image| image.name).collect();
        match known.iter().any(|image| image == name) {
            true => Ok(()),
            false => Err(PlanError::from(NoImage::UnknownDefault { requested: name.to_owned(), known }).into()),
        }
    }

    /// Returns the images of a language. The list is kept once a job of the language had its image prepared, so that
    /// later runs read no directory.
    pub(crate) fn image_facts(&self, language: &Language) -> Result<Arc<[ImageFacts]>, RunnerError> {
        if language.spec().is_module {
            return Ok(Arc::default());
        }
        let language = language.runtime_language();
        if let Some(facts) = self.prepared().get(language).and_then(|prepared| prepared.facts.clone()) {
            return Ok(facts);
        }
        let catalog = self.parts.catalog.get()?;
        let images = catalog.images(Some(language))?;
        let is_for_all = |image: &&ImageEntry| image.origin != ImageOrigin::Automatic;
        let facts: Arc<[ImageFacts]> = images.iter().filter(is_for_all).map(|image| image.facts()).collect();
        if let Some(prepared) = self.prepared().get_mut(language) {
            prepared.facts = Some(Arc::clone(&facts));
        }
        Ok(facts)
    }

    /// Installs the runtime of a language and prepares the required contents, unless they are ready.
    pub(crate) async fn ensure_runtime(
        &self,
        language: &Language,
        required: Preparation<'_>,
    ) -> Result<(), RunnerError> {
        if language.spec().is_module {
            return Ok(());
        }
        let language = language.runtime_language();
        if let Preparation::Image(image) = required
            && self.prepared().get(language).is_some_and(|prepared| prepared.images.contains(image))
        {
            return Ok(());
        }
        let catalog: &Arc<dyn Catalog> = self.parts.catalog.get()?;
        if !catalog.is_ready(language, required) {
            let (catalog, progress) = (Arc::clone(catalog), Arc::clone(&self.parts.progress));
            let (language, image) = (language.clone(), image_of(required).map(str::to_owned));
            let install = move || {
                let required = image.as_deref().map_or(Preparation::Complete, Preparation::Image);
                catalog.ensure_language(&language, required, &*progress)
            };
            self.parts.threads.start(install)?.finish().await??;
        }
        self.prepared().entry(language.clone()).or_default().images.extend(image_of(required).map(str::to_owned));
        if !self.is_single_job() {
            self.image_facts(language)?;
        }
        Ok(())
    }

    /// Returns true if the runtime of a language is completely prepared.
    pub(crate) fn is_complete(&self, language: &Language) -> Result<bool, RunnerError> {
        Ok(language.spec().is_module
            || self.parts.catalog.get()?.is_ready(language.runtime_language(), Preparation::Complete))
    }

    /// Returns the backends without the engines that the request or the policy excludes.
    pub(crate) fn backends_for(&self, engine: Option<&str>) -> Result<Vec<Arc<dyn Backend>>, RunnerError> {
        let mut backends = self.backends()?;
        if let Some(engine) = engine {
            backends.retain(|backend| is_candidate(backend.isolation(), &backend.id(), engine));
        }
        Ok(backends)
    }
}

/// Returns the image that a preparation is for.
fn image_of(required: Preparation<'_>) -> Option<&str> {
    match required {
        Preparation::Image(image) => Some(image),
        Preparation::Complete => None,
    }
}

/// Returns true if a backend is the named engine, or no engine.
fn is_candidate(isolation: Isolation, backend: &BackendId, engine: &str) -> bool {
    isolation == Isolation::Wasm || backend.as_str() == engine
}
