//! Whether pure wheels serve, or a container is needed.

use std::str::FromStr as _;

use serde::{Deserialize, Serialize};
use uv_pep440::Version;

use super::{Index, ResolveError, Resolved, Target, native};
use crate::requirement::Requirement;

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
    /// # Errors
    /// When neither serves; the error is about WebAssembly where that was not for want of wheels.
    pub async fn decide(&self, wanted: &[Requirement], wasm: &Target) -> Result<Decision, ResolveError> {
        let in_wasm = self.resolve(wanted, wasm).await;
        let held_back = match &in_wasm {
            Ok(resolved) => {
                let held_back = self.held_back(resolved, wanted, wasm).await;
                if held_back.is_empty() {
                    return Ok(Decision::Pure(resolved.clone()));
                }
                held_back
            }
            Err(ResolveError::NoSolution { .. }) => Vec::new(),
            // Also in a container it is not to be had, or nobody can tell.
            Err(_) => return in_wasm.map(Decision::Pure),
        };
        let mut in_container = self.resolve(wanted, &Target::usual()).await;
        if let Err(ResolveError::NoSolution { .. }) = in_container {
            // What is no longer made for that one; the image that is chosen has the last word.
            in_container = self.resolve(wanted, &Target::older()).await;
        }
        let (resolved, container) = match (in_wasm, in_container) {
            (Ok(resolved), Ok(container)) => (Some(resolved), container),
            (Err(_), Ok(container)) => (None, container),
            (Ok(resolved), Err(_)) => return Ok(Decision::Pure(resolved)),
            (Err(error), Err(_)) => return Err(error),
        };
        if let Some(resolved) = resolved
            && !held_back.iter().any(|name| is_newer(&container, &resolved, name))
        {
            return Ok(Decision::Pure(resolved));
        }
        let mut names: Vec<String> = native(&container, wanted)
            .into_iter()
            .filter(|name| !wasm.built_in().iter().any(|built_in| built_in.name == *name))
            .map(str::to_owned)
            .collect();
        if names.is_empty() {
            // Nothing is native: another version than the built-in one is wanted, or one for older interpreters.
            let all = wanted.iter().map(|one| one.name().to_owned());
            let built_in = |name: &String| wasm.built_in().iter().any(|built_in| built_in.name == *name);
            names = if held_back.is_empty() { all.collect() } else { held_back };
            names.sort_by_key(|name| !built_in(name));
        }
        Ok(Decision::Native(names))
    }

    /// The packages that were asked for and of which an index has newer versions than were chosen.
    async fn held_back(&self, resolved: &Resolved, wanted: &[Requirement], target: &Target) -> Vec<String> {
        let mut held_back = Vec::new();
        for one in wanted {
            let Some(wheel) = resolved.wheels.iter().find(|wheel| wheel.name == one.name()) else { continue };
            let newest = self.newest(one, target.python()).await;
            if newest.is_some_and(|newest| version(&newest) > version(&wheel.version)) {
                held_back.push(wheel.name.clone());
            }
        }
        held_back
    }
}

fn is_newer(one: &Resolved, other: &Resolved, name: &str) -> bool {
    let of = |resolved: &Resolved| {
        resolved.wheels.iter().find(|wheel| wheel.name == name).and_then(|wheel| version(&wheel.version))
    };
    of(one) > of(other)
}

fn version(text: &str) -> Option<Version> {
    Version::from_str(text).ok()
}
