//! Maintenance of the parts of a runner: images, packages, leftovers, and checks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use codebox_core::{
    Backend, BackendError, ImageName, Language, Leftovers, LocalImage, NameError, Progress, ResultKind, RunnerError,
    Sweep,
};
use codebox_service::catalog::{BundledPackage, Catalog, EntryState, RuntimeEntry};
use codebox_service::{Check, PackageProvider, Record, Request};

use tracing::field::Empty;
use tracing::info_span;

use crate::offload::block_on;
use crate::runner::Runner;
use crate::spans;

impl Runner {
    /// Returns the catalog of runtimes and memory images.
    ///
    /// # Errors
    /// Returns an error if its directories cannot be used.
    pub fn catalog(&self) -> Result<&dyn Catalog, RunnerError> {
        Ok(&**self.parts.catalog.get()?)
    }

    /// Returns the receiver of progress and messages.
    #[must_use]
    pub fn progress(&self) -> &dyn Progress {
        &*self.parts.progress
    }

    /// Returns the provider of packages.
    ///
    /// # Errors
    /// Returns an error if this runner has none, or its directories cannot be used.
    pub fn packages(&self) -> Result<&Arc<dyn PackageProvider>, RunnerError> {
        let missing = || RunnerError::new(ResultKind::InvalidRequest, "this runner has no package provider");
        self.parts.packages.as_ref().ok_or_else(missing)?.get()
    }

    /// Returns the packages that the runtime of a language bundles, by name.
    ///
    /// # Errors
    /// Returns an error if the catalog of runtimes cannot be opened.
    pub fn bundled_packages(&self, language: &Language) -> Result<Vec<BundledPackage>, RunnerError> {
        Ok(self.parts.catalog.get()?.bundled_packages(language.runtime_language()))
    }

    /// Resolves the packages of a script, writes its lock file beside it, and returns the path of that file.
    ///
    /// # Errors
    /// Returns an error if the request is not admitted, or its packages cannot be found.
    pub fn lock(&self, request: Request, script: &Path) -> Result<PathBuf, RunnerError> {
        let lock = async {
            let admitted = self.admit_stage(request).await?;
            let engines = self.engines_for(&admitted)?;
            let engines: Vec<&dyn Backend> = engines.iter().map(|engine| &**engine).collect();
            self.packages()?.lock(&admitted, script, &engines, self.progress()).await
        };
        block_on(spans::stage(info_span!("lock", outcome = Empty), lock))?
    }

    /// Returns the last jobs of the journal, the latest first.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn jobs(&self, count: usize) -> Result<Vec<Record>, RunnerError> {
        match &self.parts.journal {
            Some(journal) => Ok(journal.get()?.recent(count)?),
            None => Ok(Vec::new()),
        }
    }

    /// Lists the images of a container engine; empty if there is no engine of this name.
    ///
    /// # Errors
    /// Returns an error if the engine does not answer.
    pub fn engine_images(&self, engine: &str) -> Result<Vec<LocalImage>, RunnerError> {
        let backends = self.backends()?;
        let found = backends.iter().filter(|backend| backend.id().as_str() == engine);
        match found.filter_map(|backend| backend.image_store()).next() {
            Some(store) => Ok(block_on(store.list())??),
            None => Ok(Vec::new()),
        }
    }

    /// Pulls an image with the named engine, or the first one that answers, and returns the engine's name.
    ///
    /// # Errors
    /// Returns an error if the policy does not allow the image, no engine answers, or the image cannot be pulled.
    pub fn pull_image(&self, engine: Option<&str>, name: &str) -> Result<String, RunnerError> {
        let name: ImageName = name.parse().map_err(|error: NameError| {
            let line = format!("cannot pull {:?}: not a valid image name", error.text);
            RunnerError::new(ResultKind::InvalidRequest, line).with_fix(error.rule)
        })?;
        let allowed = self.parts.policy.get()?.allowed_images.as_ref();
        if allowed.is_some_and(|patterns| patterns.iter().all(|pattern| !pattern.allows(&name))) {
            let line = format!("cannot pull {name}: not allowed by the configuration");
            return Err(RunnerError::new(ResultKind::Denied, line).with_fix("add it to images.allowed"));
        }
        let backends = self.backends_for(engine)?;
        block_on(async {
            let mut refused = None;
            for backend in &backends {
                let Some(store) = backend.image_store() else { continue };
                match backend.probe().await {
                    Ok(_) => {
                        store.pull(&name, self.progress()).await?;
                        return Ok(backend.id().to_string());
                    }
                    Err(why) => {
                        let error = BackendError::Unavailable { backend: backend.id(), why };
                        refused = refused.or(Some(RunnerError::from(error)));
                    }
                }
            }
            let none = || RunnerError::new(ResultKind::EngineUnavailable, "this build has no container engine");
            Err(refused.unwrap_or_else(none))
        })?
    }

    /// Finds the leftovers of killed codebox processes, and removes them if `sweep` says so.
    ///
    /// # Errors
    /// Returns an error if codebox's directories cannot be used.
    pub fn sweep(&self, sweep: Sweep) -> Result<Leftovers, RunnerError> {
        let backends = self.backends()?;
        block_on(async {
            let mut all = Leftovers::default();
            for collector in backends.iter().filter_map(|backend| backend.leftovers()) {
                let Leftovers { found, unreachable } = collector.sweep(sweep).await;
                // The collectors of several engines find the same leftovers of this machine.
                let new: Vec<_> = found.into_iter().filter(|leftover| !all.found.contains(leftover)).collect();
                all.found.extend(new);
                all.unreachable.extend(unreachable);
            }
            all
        })
    }

    /// Ends the pools of warm containers that other processes of this user keep.
    ///
    /// # Errors
    /// Returns an error if codebox's directories cannot be used.
    pub fn stop_warm_pools(&self) -> Result<(), RunnerError> {
        let backends = self.backends()?;
        match backends.iter().find_map(|backend| backend.warm_pool()) {
            Some(pool) => Ok(block_on(pool.stop_all())??),
            None => Ok(()),
        }
    }

    /// Checks everything that a run on this machine depends on. Changes and installs nothing.
    pub fn checks(&self) -> Vec<Check> {
        let mut checks = (self.parts.checks)();
        checks.extend(self.runtime_checks());
        checks.extend(self.backend_checks());
        checks
    }

    fn runtime_checks(&self) -> Vec<Check> {
        let entries = self.catalog().and_then(|catalog| Ok(catalog.runtimes()?));
        match entries {
            Ok(entries) => entries.into_iter().map(runtime_check).collect(),
            Err(error) => vec![failed_check("runtimes", &error)],
        }
    }

    fn backend_checks(&self) -> Vec<Check> {
        let backends = match self.backends() {
            Ok(backends) => backends,
            Err(error) => return vec![failed_check("engines", &error)],
        };
        let diagnoses = block_on(async {
            let mut diagnoses = Vec::new();
            for backend in &backends {
                diagnoses.push(backend.diagnose().await);
            }
            diagnoses
        });
        let findings = diagnoses.unwrap_or_default().into_iter().flat_map(|diagnosis| {
            let subject = diagnosis.subject;
            diagnosis.findings.into_iter().map(move |finding| match finding.fix {
                None => Check::ok(subject.clone(), finding.detail),
                Some(fix) => Check::warn(subject.clone(), finding.detail, fix),
            })
        });
        findings.collect()
    }
}

fn failed_check(subject: &str, error: &RunnerError) -> Check {
    Check::fail(subject, error.message(), error.fix().unwrap_or("see the error message"))
}

fn runtime_check(entry: RuntimeEntry) -> Check {
    let name = format!("runtime {}", entry.name);
    let install = format!("codebox runtime install {}", entry.name);
    match entry.state {
        EntryState::Installed => {
            let language_version = entry.language_version.as_deref().unwrap_or("not prepared yet");
            Check::ok(name, format!("version {}, {language_version}", entry.version))
        }
        EntryState::Missing => {
            Check::warn(name, "not installed: the first run installs it", format!("to install it now: {install}"))
        }
        EntryState::Damaged(why) => Check::fail(name, why, install),
    }
}
