//! Exact packages for what is asked for: as a lock says, as was found out lately, or as indexes say now.

use std::path::Path;

use codebox_cli::Failure;
use codebox_core::ResultKind;
use codebox_packages::{
    BuildPlace, ConfigFiles, Decision, House, Image, Index, IndexSettings, Requirement, ResolveError, Resolved,
    Sources, Target, built_in_of,
};
use codebox_service::catalog::Progress;
use codebox_wasm::Store;

use super::asked::{self, Asked};
use super::build::Shop;
use super::{ASK_ANOTHER, Provisions, is_other, runtime_key, target, version};

impl Provisions {
    /// Where what is asked for can be had: as the lock says, as was found out lately, or as an index says now; and as what
    /// has to be built turns out to be.
    pub(super) async fn decided(
        &self,
        asked: &Asked,
        store: &Store,
        shop: &mut Shop<'_>,
        progress: &dyn Progress,
    ) -> Result<Decision, Failure> {
        let wasm = target(store, Vec::new())?;
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
                let key = self.key(&("decided", asked.texts(), version(store)?, runtime_key(store), shop.builds()))?;
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

    /// The same, of which is known whether what has to be built serves there: it is built for that.
    pub(super) async fn as_built(
        &self,
        found: Decision,
        target: &Target,
        shop: &mut Shop<'_>,
    ) -> Result<Decision, Failure> {
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
        store: &Store,
        shop: &mut Shop<'_>,
    ) -> Result<Decision, Failure> {
        let library = store.library_dir();
        let zip = std::fs::read_dir(&library).ok().and_then(|mut entries| entries.next()?.ok());
        let zip = zip.map_or(library, |entry| entry.path());
        let built_in = built_in_of(&zip).map_err(|error| Failure::of(ResultKind::ImageError, &error))?;
        let (wanted, target) = (&asked.wanted, &target(store, built_in)?);
        shop.ask(wanted, async |index: &Index<'_>, sources: Sources<'_>| index.decide(wanted, target, sources).await)
            .await
    }

    /// The exact packages for a container.
    pub(super) async fn exact(
        &self,
        asked: &Asked,
        target: &Target,
        shop: &mut Shop<'_>,
        progress: &dyn Progress,
    ) -> Result<Resolved, Failure> {
        if let Some((file, lock)) = &asked.lock {
            let of = lock.of(target).map_err(|error| asked::bad_lock(file, &error))?;
            let resolved = of.map_err(|names| {
                let line = format!("{} has no packages for {}", file.display(), names.join(", "));
                Failure::new(ResultKind::InstallFailed, line)
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
    ) -> Result<Resolved, Failure> {
        shop.ask(wanted, async |index: &Index<'_>, sources: Sources<'_>| index.resolve(wanted, target, sources).await)
            .await
    }

    /// The exact wheels for a container, where nothing may be built for it.
    pub(super) fn wheels_alone(
        &self,
        wanted: &[Requirement],
        target: &Target,
        progress: &dyn Progress,
    ) -> Result<Resolved, Failure> {
        let key = self.exact_key(wanted, target, None)?;
        let known = match self.house.remembered(&key) {
            Some((known, true)) => return Ok(known),
            known => known.map(|(known, _)| known),
        };
        let answer = self.with_index(async |index| match index.resolve(wanted, target, Sources::Refused).await {
            Ok(resolved) => Ok(resolved),
            // Nor would it be if it were asked for.
            Err(error) => Err(unresolved(index.told(error, wanted, Sources::Refused).await, "")),
        });
        self.settled(&key, known, answer, progress)
    }

    /// A key for what is chosen for a target; where source distributions serve, for the image that they are built in, since
    /// what they need may depend on it.
    fn exact_key(
        &self,
        wanted: &[Requirement],
        target: &Target,
        built_at: Option<&BuildPlace>,
    ) -> Result<String, Failure> {
        let built_at = built_at.map(|place| (&place.image, place.choice));
        self.key(&("exact", asked::texts(wanted), target, built_at))
    }

    /// A new answer, which is remembered; or the one from before, where there is no new one for want of the network.
    fn settled<T: serde::Serialize>(
        &self,
        key: &str,
        known: Option<T>,
        answer: Result<T, Failure>,
        progress: &dyn Progress,
    ) -> Result<T, Failure> {
        match (answer, known) {
            (Ok(answer), _) => {
                self.house.remember(key, &answer);
                Ok(answer)
            }
            (Err(failure), Some(known)) if failure.kind() == ResultKind::EngineUnavailable => {
                progress.note(&format!("{}; the packages chosen the last time are used", failure.message()));
                self.house.remember_once_more(key, &known);
                Ok(known)
            }
            (Err(failure), _) => Err(failure),
        }
    }

    /// A key for an answer of these indexes.
    fn key(&self, of: &impl serde::Serialize) -> Result<String, Failure> {
        let sources = IndexSettings::told_apart(&|name| self.variable(name), &ConfigFiles::OfUser);
        let sources = sources.map_err(|error| Failure::of(ResultKind::InvalidRequest, &error))?;
        Ok(House::key(&(of, sources)))
    }
}

/// Refuses a lock of what would have to be built, where that was not asked for.
fn builds_what_is_locked(file: &Path, resolved: &Resolved, shop: &Shop<'_>) -> Result<(), Failure> {
    match resolved.sources.first() {
        Some(first) if !shop.builds() => {
            let line = format!("{} has the package {} as a source distribution", file.display(), first.0.name);
            Err(Failure::new(ResultKind::InstallFailed, line).with_fix(shop.advice()))
        }
        _ => Ok(()),
    }
}

/// Refuses a lock with a wheel that does not serve where the program runs: it may have been made for an image with a newer C
/// library, and is found by what both are called.
fn serves_as_locked(file: &Path, resolved: &Resolved, target: &Target, shop: &Shop<'_>) -> Result<(), Failure> {
    let Some(wheel) = resolved.wheels.iter().find(|wheel| !target.takes(&wheel.file)) else { return Ok(()) };
    let again = "have it made again with codebox lock";
    let (there, fix) = match (target, shop.image()) {
        (Target::Wasm { .. }, _) => ("WebAssembly".to_owned(), again.to_owned()),
        (Target::Container(Image { libc, libc_version: (major, minor), .. }), named) => {
            let which = named.map_or("that Python programs start from".to_owned(), ToString::to_string);
            let fix = named.map_or(again.to_owned(), |named| format!("{again} --image {named}"));
            (format!("the image {which}, which has {libc} {major}.{minor}"), fix)
        }
    };
    let line = format!("cannot use {}: {} in it does not serve in {there}", file.display(), wheel.file);
    Err(Failure::new(ResultKind::InvalidRequest, line).with_fix(fix))
}

/// Why packages were not found; `advice` is what to do about those that would have to be built.
pub(super) fn unresolved(error: ResolveError, advice: &str) -> Failure {
    let kind = match &error {
        // Later it may be there.
        ResolveError::Offline(_) | ResolveError::Index { .. } | ResolveError::Deadline { .. } => {
            ResultKind::EngineUnavailable
        }
        _ => ResultKind::InstallFailed,
    };
    let failure = Failure::of(kind, &error);
    match &error {
        ResolveError::NoSolution { unbuilt, .. } if !unbuilt.is_empty() => failure.with_fix(advice),
        ResolveError::File(error) if is_other(error) => failure.with_fix(ASK_ANOTHER),
        _ => failure,
    }
}
