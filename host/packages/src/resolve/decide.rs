//! Whether pure wheels serve, or a container is needed.

use serde::{Deserialize, Serialize};

use super::{Index, ResolveError, Resolved, Sources, Target, native};
use crate::requirement::Requirement;
use crate::source::Sdist;

/// Where packages can be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// In WebAssembly: these.
    Pure(Resolved),
    /// In a container only, because of these packages, what was asked for first.
    Native(Vec<String>),
}

impl Index<'_> {
    /// Chooses pure wheels for a WebAssembly target, or says which packages need a container.
    ///
    /// Old versions are no way out: where pure wheels are to be had only of an older version of a package that was asked
    /// for than a container gets, the container it is.
    ///
    /// Where `sources` lets source distributions serve, whether a wheel that is still to be built of one is pure is not known
    /// here: what [`Decision::Pure`] has in `sources` is to be looked at once it is built.
    ///
    /// # Errors
    /// When neither serves; the error is about WebAssembly where that was not for want of wheels. As for
    /// [`resolve`](Self::resolve).
    pub async fn decide(
        &self,
        wanted: &[Requirement],
        wasm: &Target,
        sources: Sources<'_>,
    ) -> Result<Decision, ResolveError> {
        // With the newest of what was asked for, first: without that bound a search goes back through every old version until
        // it comes to one from before there was native code.
        let mut newest = Vec::new();
        for one in free(wanted, wasm) {
            let version = self.newest(one, wasm.python()).await?;
            newest.extend(version.and_then(|version| no_older(one.name(), &version)));
        }
        match self.resolve(&[wanted, &newest].concat(), wasm, sources).await {
            Ok(resolved) => return Ok(Decision::Pure(resolved)),
            Err(ResolveError::NoSolution { .. }) => {}
            // Also in a container it is not to be had, or nobody can tell.
            Err(error) => return Err(error),
        }
        let mut in_container = self.resolve(wanted, &Target::usual(), sources).await;
        if let Err(ResolveError::NoSolution { .. }) = in_container {
            // What is no longer made for that one; the image that is chosen has the last word.
            in_container = self.resolve(wanted, &Target::older(), sources).await;
        }
        // Older than the newest will do where a container has nothing newer either.
        let container = match in_container {
            Ok(container) => container,
            Err(unbuilt @ ResolveError::Unbuilt(_)) => return Err(unbuilt),
            Err(_) => return self.resolve(wanted, wasm, sources).await.map(Decision::Pure),
        };
        let built = container.sources.iter().map(|Sdist(file)| file);
        let as_new = free(wanted, wasm).filter_map(|one| {
            let wheel = container.wheels.iter().chain(built.clone()).find(|wheel| wheel.name == one.name())?;
            no_older(&wheel.name, &wheel.version)
        });
        let as_new: Vec<Requirement> = as_new.collect();
        match self.resolve(&[wanted, &as_new].concat(), wasm, sources).await {
            Ok(resolved) => return Ok(Decision::Pure(resolved)),
            Err(ResolveError::NoSolution { .. }) => {}
            Err(error) => return Err(error),
        }
        let is_built_in = |name: &str| wasm.built_in().iter().any(|built_in| built_in.name == name);
        let natives = native(&container, wanted).into_iter().filter(|name| !is_built_in(name));
        let mut names: Vec<String> = natives.map(str::to_owned).collect();
        if names.is_empty() {
            names = built.map(|file| file.name.clone()).collect();
        }
        if names.is_empty() {
            // Nothing is native: another version than the built-in one is wanted, or one for older interpreters.
            names = wanted.iter().map(|one| one.name().to_owned()).collect();
            names.sort_by_key(|name| !is_built_in(name));
        }
        Ok(Decision::Native(names))
    }
}

/// What was asked for without a condition, and is not built in, which there is one version of.
fn free<'w>(wanted: &'w [Requirement], wasm: &'w Target) -> impl Iterator<Item = &'w Requirement> {
    let built_in = wasm.built_in();
    wanted.iter().filter(move |one| !one.has_marker() && built_in.iter().all(|other| other.name != one.name()))
}

fn no_older(name: &str, version: &str) -> Option<Requirement> {
    // What comes after the plus sign cannot be compared so.
    let version = version.split('+').next().unwrap_or(version);
    format!("{name}>={version}").parse().ok()
}
