//! Resolution of requested packages to exact files, from a lock, a cached answer or the indexes.

use std::path::Path;

use crate::{
    BuildPlace, ConfigFiles, Decision, House, Image, Index, IndexSettings, Requirement, ResolveError, Resolved,
    Sources, Target, built_in_of,
};
use codebox_core::{Progress, ResultKind, RunnerError};
use codebox_service::catalog::RuntimeLibrary;

use super::asked::{self, Asked};
use super::build::Shop;
use super::{ASK_ANOTHER, JobPackages, is_other, target};

impl JobPackages {
    /// Decides in which isolations the requested packages are available, from a lock, a recent cached answer or the
    /// indexes. Source distributions are built as part of the decision.
    pub(super) async fn decided(
        &self,
        asked: &Asked,
        store: &RuntimeLibrary,
        shop: &mut Shop<'_>,
        progress: &dyn Progress,
    ) -> Result<Decision, RunnerError> {
        let wasm = target(store, Vec::new());
        let found = match &asked.lock {
            Some((file, lock)) => {
                let of = lock.of(&wasm).map_err(|error| asked::bad_lock(file, &error))?;
                let found = of.map_or_else(Decision::Native, Decision::Pure);
                if let Decision::Pure(resolved) = &found {
                    builds_what_is_locked(file, resolved, shop)?;
                    serves_as_locked(file, resolved, &wasm, shop)?;
                }
                found
            }
            None => {
                let key = self.key(&("decided", asked.texts(), &store.version, &store.key, shop.builds()))?;
                match self.house.remembered(&key) {
                    Some((found, true)) => found,
                    known => {
                        let found = self.asked_anew(asked, store, shop).await;
                        self.settled(&key, known.map(|(known, _)| known), found, progress)?
                    }
                }
            }
        };
        self.as_built(found, &wasm, shop).await
    }

    /// Builds the source distributions of a decision. The result is [`Decision::Native`] if a built wheel does not
    /// support the target.
    pub(super) async fn as_built(
        &self,
        found: Decision,
        target: &Target,
        shop: &mut Shop<'_>,
    ) -> Result<Decision, RunnerError> {
        let Decision::Pure(resolved) = found else { return Ok(found) };
        let mut native = Vec::new();
        for sdist in &resolved.sources {
            if !target.takes(&shop.wheel(sdist).await?.file) {
                native.push(sdist.0.name.clone());
            }
        }
        Ok(if native.is_empty() { Decision::Pure(resolved) } else { Decision::Native(native) })
    }

    pub(super) async fn asked_anew(
        &self,
        asked: &Asked,
        store: &RuntimeLibrary,
        shop: &mut Shop<'_>,
    ) -> Result<Decision, RunnerError> {
        let built_in = built_in_of(&store.archive).map_err(|error| RunnerError::of(ResultKind::ImageError, &error))?;
        let (wanted, target) = (&asked.wanted, &target(store, built_in));
        shop.ask(wanted, async |index: &Index<'_>, sources: Sources<'_>| index.decide(wanted, target, sources).await)
            .await
    }

    /// Resolves the requested packages for a container to exact files.
    pub(super) async fn exact(
        &self,
        asked: &Asked,
        target: &Target,
        shop: &mut Shop<'_>,
        progress: &dyn Progress,
    ) -> Result<Resolved, RunnerError> {
        if let Some((file, lock)) = &asked.lock {
            let of = lock.of(target).map_err(|error| asked::bad_lock(file, &error))?;
            let resolved = of.map_err(|names| {
                let line = format!("{} has no packages for {}", file.display(), names.join(", "));
                RunnerError::new(ResultKind::InstallFailed, line)
            })?;
            builds_what_is_locked(file, &resolved, shop)?;
            serves_as_locked(file, &resolved, target, shop)?;
            return Ok(resolved);
        }
        let key = self.exact_key(&asked.wanted, target, shop.built_at())?;
        let known = match self.house.remembered(&key) {
            Some((known, true)) => return Ok(known),
            known => known.map(|(known, _)| known),
        };
        let answer = self.exact_anew(&asked.wanted, target, shop).await;
        self.settled(&key, known, answer, progress)
    }

    pub(super) async fn exact_anew(
        &self,
        wanted: &[Requirement],
        target: &Target,
        shop: &mut Shop<'_>,
    ) -> Result<Resolved, RunnerError> {
        shop.ask(wanted, async |index: &Index<'_>, sources: Sources<'_>| index.resolve(wanted, target, sources).await)
            .await
    }

    /// Resolves requirements for a container to exact wheels, without source distributions.
    pub(super) fn wheels_alone(
        &self,
        wanted: &[Requirement],
        target: &Target,
        progress: &dyn Progress,
    ) -> Result<Resolved, RunnerError> {
        let key = self.exact_key(wanted, target, None)?;
        let known = match self.house.remembered(&key) {
            Some((known, true)) => return Ok(known),
            known => known.map(|(known, _)| known),
        };
        let answer = self.with_index(async |index| match index.resolve(wanted, target, Sources::Refused).await {
            Ok(resolved) => Ok(resolved),
            // The error has no advice, because `--build` does not apply to build requirements.
            Err(error) => Err(unresolved(index.told(error, wanted, Sources::Refused).await, "")),
        });
        self.settled(&key, known, answer, progress)
    }

    /// Returns the cache key of a resolution for a target. With source distributions the key includes the image in
    /// which they are built, because their dependencies may depend on it.
    fn exact_key(
        &self,
        wanted: &[Requirement],
        target: &Target,
        built_at: Option<&BuildPlace>,
    ) -> Result<String, RunnerError> {
        let built_at = built_at.map(|place| (&place.image, place.choice));
        self.key(&("exact", asked::texts(wanted), target, built_at))
    }

    /// Caches and returns a new answer. If an index cannot be reached, returns the earlier answer instead, if there is
    /// one.
    fn settled<T: serde::Serialize>(
        &self,
        key: &str,
        known: Option<T>,
        answer: Result<T, RunnerError>,
        progress: &dyn Progress,
    ) -> Result<T, RunnerError> {
        match (answer, known) {
            (Ok(answer), _) => {
                self.house.remember(key, &answer);
                Ok(answer)
            }
            (Err(failure), Some(known)) if failure.kind() == ResultKind::EngineUnavailable => {
                progress.note(&format!("{}; using the previously resolved packages", failure.message()));
                self.house.remember_once_more(key, &known);
                Ok(known)
            }
            (Err(failure), _) => Err(failure),
        }
    }

    /// Returns a cache key that includes the configured indexes.
    fn key(&self, of: &impl serde::Serialize) -> Result<String, RunnerError> {
        let sources = IndexSettings::told_apart(&|name| self.variable(name), &ConfigFiles::OfUser);
        let sources = sources.map_err(|error| RunnerError::of(ResultKind::InvalidRequest, &error))?;
        Ok(House::key(&(of, sources)))
    }
}

/// Rejects a lock with source distributions unless the job allows builds.
fn builds_what_is_locked(file: &Path, resolved: &Resolved, shop: &Shop<'_>) -> Result<(), RunnerError> {
    match resolved.sources.first() {
        Some(first) if !shop.builds() => {
            let line = format!("{} locks package {} as a source distribution", file.display(), first.0.name);
            Err(RunnerError::new(ResultKind::InstallFailed, line).with_fix(shop.advice()))
        }
        _ => Ok(()),
    }
}

/// Rejects a lock with a wheel that does not support the target. Such a lock may have been made for an image with a
/// newer C library: locks are looked up by target name, which does not contain the library's version.
fn serves_as_locked(file: &Path, resolved: &Resolved, target: &Target, shop: &Shop<'_>) -> Result<(), RunnerError> {
    let Some(wheel) = resolved.wheels.iter().find(|wheel| !target.takes(&wheel.file)) else { return Ok(()) };
    let again = "recreate it with codebox lock";
    let (there, fix) = match (target, shop.image()) {
        (Target::Wasm { .. }, _) => ("WebAssembly".to_owned(), again.to_owned()),
        (Target::Container(Image { libc, libc_version: (major, minor), .. }), named) => {
            let which = named.map_or("for Python programs".to_owned(), ToString::to_string);
            let fix = named.map_or(again.to_owned(), |named| format!("{again} --image {named}"));
            (format!("the image {which}, which has {libc} {major}.{minor}"), fix)
        }
    };
    let line = format!("cannot use {}: {} is not compatible with {there}", file.display(), wheel.file);
    Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix))
}

/// Converts a resolution error. `advice` is the fix for packages that would have to be built.
pub(super) fn unresolved(error: ResolveError, advice: &str) -> RunnerError {
    let kind = match &error {
        // These errors may be temporary.
        ResolveError::Offline(_) | ResolveError::Index { .. } | ResolveError::Deadline { .. } => {
            ResultKind::EngineUnavailable
        }
        _ => ResultKind::InstallFailed,
    };
    let failure = RunnerError::of(kind, &error);
    match &error {
        ResolveError::NoSolution { unbuilt, .. } if !unbuilt.is_empty() => failure.with_fix(advice),
        ResolveError::File(error) if is_other(error) => failure.with_fix(ASK_ANOTHER),
        _ => failure,
    }
}
