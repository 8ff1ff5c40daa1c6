//! Resolution of requested packages to exact files, from a lock, a cached answer or the indexes.

use std::path::Path;

use crate::index::Index;
use crate::package_store::{BuildImage, PackageStore};
use crate::requirement::Requirement;
use crate::resolve::{Decision, Resolved, SdistPolicy};
use crate::settings::{ConfigFiles, IndexSettings};
use crate::target::{ImageInterpreter, Target, read_built_in_packages};
use codebox_core::{Progress, ResultKind, RunnerError};
use codebox_service::catalog::RuntimeLibrary;

use super::build::SdistBuilder;
use super::errors::resolution_error;
use super::request::{self, PackageRequest};
use super::{JobPackages, target};

impl JobPackages {
    /// Decides in which isolations the requested packages are available, from a lock, a recent cached answer or the
    /// indexes. Source distributions are built as part of the decision.
    pub(super) async fn decide_tier(
        &self,
        request: &PackageRequest,
        library: &RuntimeLibrary,
        builder: &mut SdistBuilder<'_>,
        progress: &dyn Progress,
    ) -> Result<Decision, RunnerError> {
        let wasm = target(library, Vec::new());
        let found = match &request.lock {
            Some((file, lock)) => {
                let of = lock.of(&wasm).map_err(|error| request::lock_error(file, &error))?;
                let found = of.map_or_else(Decision::Native, Decision::Pure);
                if let Decision::Pure(resolved) = &found {
                    check_locked_sdists(file, resolved, builder)?;
                    check_locked_wheels(file, resolved, &wasm, builder)?;
                }
                found
            }
            None => {
                let key =
                    self.key(&("decided", request.texts(), &library.version, &library.key, builder.builds_enabled()))?;
                match self.package_store.cached_answer(&key) {
                    Some((found, true)) => found,
                    known => {
                        let found = self.decide_tier_uncached(request, library, builder).await;
                        self.cache_or_reuse(&key, known.map(|(known, _)| known), found, progress)?
                    }
                }
            }
        };
        self.build_sdists(found, &wasm, builder).await
    }

    /// Builds the source distributions of a decision. The result is [`Decision::Native`] if a built wheel does not
    /// support the target.
    pub(super) async fn build_sdists(
        &self,
        found: Decision,
        target: &Target,
        builder: &mut SdistBuilder<'_>,
    ) -> Result<Decision, RunnerError> {
        let Decision::Pure(resolved) = found else { return Ok(found) };
        let mut native = Vec::new();
        for sdist in &resolved.sources {
            if !target.supports_wheel(&builder.wheel(sdist).await?.file) {
                native.push(sdist.0.name.clone());
            }
        }
        Ok(if native.is_empty() { Decision::Pure(resolved) } else { Decision::Native(native) })
    }

    pub(super) async fn decide_tier_uncached(
        &self,
        request: &PackageRequest,
        library: &RuntimeLibrary,
        builder: &mut SdistBuilder<'_>,
    ) -> Result<Decision, RunnerError> {
        let built_in = read_built_in_packages(&library.archive)
            .map_err(|error| RunnerError::of(ResultKind::ImageError, &error))?;
        let (requirements, target) = (&request.requirements, &target(library, built_in));
        builder
            .query_index(requirements, async |index: &Index<'_>, sources: SdistPolicy<'_>| {
                index.decide(requirements, target, sources).await
            })
            .await
    }

    /// Resolves the requested packages for a container to exact files.
    pub(super) async fn container_resolution(
        &self,
        request: &PackageRequest,
        target: &Target,
        builder: &mut SdistBuilder<'_>,
        progress: &dyn Progress,
    ) -> Result<Resolved, RunnerError> {
        if let Some((file, lock)) = &request.lock {
            let of = lock.of(target).map_err(|error| request::lock_error(file, &error))?;
            let resolved = of.map_err(|names| {
                let line = format!("{} has no packages for {}", file.display(), names.join(", "));
                RunnerError::new(ResultKind::InstallFailed, line)
            })?;
            check_locked_sdists(file, &resolved, builder)?;
            check_locked_wheels(file, &resolved, target, builder)?;
            return Ok(resolved);
        }
        let key = self.resolution_key(&request.requirements, target, builder.build_image())?;
        let known = match self.package_store.cached_answer(&key) {
            Some((known, true)) => return Ok(known),
            known => known.map(|(known, _)| known),
        };
        let answer = self.new_container_resolution(&request.requirements, target, builder).await;
        self.cache_or_reuse(&key, known, answer, progress)
    }

    pub(super) async fn new_container_resolution(
        &self,
        requirements: &[Requirement],
        target: &Target,
        builder: &mut SdistBuilder<'_>,
    ) -> Result<Resolved, RunnerError> {
        builder
            .query_index(requirements, async |index: &Index<'_>, sources: SdistPolicy<'_>| {
                index.resolve(requirements, target, sources).await
            })
            .await
    }

    /// Resolves requirements for a container to exact wheels, without source distributions.
    pub(super) fn resolve_wheels_only(
        &self,
        requirements: &[Requirement],
        target: &Target,
        progress: &dyn Progress,
    ) -> Result<Resolved, RunnerError> {
        let key = self.resolution_key(requirements, target, None)?;
        let known = match self.package_store.cached_answer(&key) {
            Some((known, true)) => return Ok(known),
            known => known.map(|(known, _)| known),
        };
        let answer =
            self.with_index(async |index| match index.resolve(requirements, target, SdistPolicy::Refused).await {
                Ok(resolved) => Ok(resolved),
                // The error has no advice, because `--build` does not apply to build requirements.
                Err(error) => Err(resolution_error(
                    index.explain_no_solution(error, requirements, SdistPolicy::Refused).await,
                    "",
                )),
            });
        self.cache_or_reuse(&key, known, answer, progress)
    }

    /// Returns the cache key of a resolution for a target. With source distributions the key includes the image in
    /// which they are built, because their dependencies may depend on it.
    fn resolution_key(
        &self,
        requirements: &[Requirement],
        target: &Target,
        build_image: Option<&BuildImage>,
    ) -> Result<String, RunnerError> {
        let build_image = build_image.map(|build_image| (&build_image.image, build_image.choice));
        self.key(&("exact", request::texts(requirements), target, build_image))
    }

    /// Caches and returns a new answer. If an index cannot be reached, returns the earlier answer instead, if there is
    /// one.
    fn cache_or_reuse<T: serde::Serialize>(
        &self,
        key: &str,
        known: Option<T>,
        answer: Result<T, RunnerError>,
        progress: &dyn Progress,
    ) -> Result<T, RunnerError> {
        match (answer, known) {
            (Ok(answer), _) => {
                self.package_store.cache_answer(key, &answer);
                Ok(answer)
            }
            (Err(failure), Some(known)) if failure.kind() == ResultKind::EngineUnavailable => {
                progress.note(&format!("{}; using the previously resolved packages", failure.message()));
                self.package_store.extend_cached_answer(key, &known);
                Ok(known)
            }
            (Err(failure), _) => Err(failure),
        }
    }

    /// Returns a cache key that includes the configured indexes.
    fn key(&self, of: &impl serde::Serialize) -> Result<String, RunnerError> {
        let sources = IndexSettings::source_key(&|name| self.variable(name), &ConfigFiles::User);
        let sources = sources.map_err(|error| RunnerError::of(ResultKind::InvalidRequest, &error))?;
        Ok(PackageStore::key(&(of, sources)))
    }
}

/// Rejects a lock with source distributions unless the job allows builds.
fn check_locked_sdists(file: &Path, resolved: &Resolved, builder: &SdistBuilder<'_>) -> Result<(), RunnerError> {
    match resolved.sources.first() {
        Some(first) if !builder.builds_enabled() => {
            let line = format!("{} locks package {} as a source distribution", file.display(), first.0.name);
            Err(RunnerError::new(ResultKind::InstallFailed, line).with_fix(builder.advice()))
        }
        _ => Ok(()),
    }
}

/// Rejects a lock with a wheel that does not support the target. Such a lock may have been made for an image with a
/// newer C library: locks are looked up by target name, which does not contain the library's version.
fn check_locked_wheels(
    file: &Path,
    resolved: &Resolved,
    target: &Target,
    builder: &SdistBuilder<'_>,
) -> Result<(), RunnerError> {
    let Some(wheel) = resolved.wheels.iter().find(|wheel| !target.supports_wheel(&wheel.file)) else { return Ok(()) };
    let again = "recreate it with codebox lock";
    let (there, fix) = match (target, builder.image()) {
        (Target::Wasm { .. }, _) => ("WebAssembly".to_owned(), again.to_owned()),
        (Target::Container(ImageInterpreter { libc, libc_version: (major, minor), .. }), named) => {
            let which = named.map_or("for Python programs".to_owned(), ToString::to_string);
            let fix = named.map_or(again.to_owned(), |named| format!("{again} --image {named}"));
            (format!("the image {which}, which has {libc} {major}.{minor}"), fix)
        }
    };
    let line = format!("cannot use {}: {} is not compatible with {there}", file.display(), wheel.file);
    Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix))
}
