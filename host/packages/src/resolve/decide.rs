//! Decision between pure wheels in WebAssembly and a container.

use serde::{Deserialize, Serialize};

use super::{ResolveError, Resolved, SdistPolicy, native_packages};
use crate::index::Index;
use crate::requirement::Requirement;
use crate::source::Sdist;
use crate::target::Target;

/// Tier in which packages can be installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Decision {
    /// WebAssembly, with these packages.
    Pure(Resolved),
    /// A container only, because of these packages; the required ones come first.
    Native(Vec<String>),
}

impl Index<'_> {
    /// Resolves requirements to pure wheels for a WebAssembly target, or determines the packages that need a container.
    ///
    /// Old versions are not a substitute: if a required package has pure wheels only in an older version than a
    /// container would get, the decision is for the container.
    ///
    /// A source distribution, if `sources` allows them, may result in a wheel that is not pure: the caller must check
    /// the `sources` of [`Decision::Pure`] once they are built.
    ///
    /// # Errors
    /// As for [`resolve`](Self::resolve), when neither tier has a solution. Unless it is [`ResolveError::BuildRequired`], the
    /// error is that of the WebAssembly target.
    pub(crate) async fn decide(
        &self,
        requirements: &[Requirement],
        wasm: &Target,
        sources: SdistPolicy<'_>,
    ) -> Result<Decision, ResolveError> {
        // The first attempt requires the newest versions. Without that bound, a search would go back through all old
        // versions to one from before the package had native code.
        let mut newest = Vec::new();
        for one in unconditional(requirements, wasm) {
            let version = self.newest(one, wasm.python()).await?;
            newest.extend(version.and_then(|version| at_least(one.name(), &version)));
        }
        match self.resolve(&[requirements, &newest].concat(), wasm, sources).await {
            Ok(resolved) => return Ok(Decision::Pure(resolved)),
            Err(ResolveError::NoSolution { .. }) => {}
            // The packages are not available in a container either, or that is unknown.
            Err(error) => return Err(error),
        }
        let mut in_container = self.resolve(requirements, &Target::default_container(), sources).await;
        if let Err(ResolveError::NoSolution { .. }) = in_container {
            // Some packages have no wheels for that target any more. The image chosen for the run decides.
            in_container = self.resolve(requirements, &Target::older_container(), sources).await;
        }
        // An older version is accepted if a container has no newer one either.
        let container = match in_container {
            Ok(container) => container,
            Err(unbuilt @ ResolveError::BuildRequired(_)) => return Err(unbuilt),
            Err(_) => return self.resolve(requirements, wasm, sources).await.map(Decision::Pure),
        };
        let built = container.sources.iter().map(|Sdist(file)| file);
        let minimum_versions = unconditional(requirements, wasm).filter_map(|one| {
            let wheel = container.wheels.iter().chain(built.clone()).find(|wheel| wheel.name == one.name())?;
            at_least(&wheel.name, &wheel.version)
        });
        let minimum_versions: Vec<Requirement> = minimum_versions.collect();
        match self.resolve(&[requirements, &minimum_versions].concat(), wasm, sources).await {
            Ok(resolved) => return Ok(Decision::Pure(resolved)),
            Err(ResolveError::NoSolution { .. }) => {}
            Err(error) => return Err(error),
        }
        let is_built_in = |name: &str| wasm.built_in().iter().any(|built_in| built_in.name == name);
        let natives = native_packages(&container, requirements).into_iter().filter(|name| !is_built_in(name));
        let mut names: Vec<String> = natives.map(str::to_owned).collect();
        if names.is_empty() {
            names = built.map(|file| file.name.clone()).collect();
        }
        if names.is_empty() {
            // No package is native: the requirement excludes the built-in version, or needs an older interpreter.
            names = requirements.iter().map(|one| one.name().to_owned()).collect();
            names.sort_by_key(|name| !is_built_in(name));
        }
        Ok(Decision::Native(names))
    }
}

/// Returns the unconditional requirements that are not built in. A built-in package has only one version.
fn unconditional<'w>(requirements: &'w [Requirement], wasm: &'w Target) -> impl Iterator<Item = &'w Requirement> {
    let built_in = wasm.built_in();
    requirements.iter().filter(move |one| !one.has_marker() && built_in.iter().all(|other| other.name != one.name()))
}

fn at_least(name: &str, version: &str) -> Option<Requirement> {
    // The operator `>=` does not allow a local version, the part after the plus sign.
    let version = version.split('+').next().unwrap_or(version);
    format!("{name}>={version}").parse().ok()
}
