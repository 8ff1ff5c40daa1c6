//! Resolution of specs to a tree.

use std::collections::{BTreeSet, HashMap, VecDeque};

use futures_util::StreamExt as _;
use futures_util::stream;
use node_semver::Range;
use serde_json::Value;
use url::Url;

use super::client::Client;
use super::error::NpmError;
use super::integrity::Integrity;
use super::layout::{DependencyKind, Edge, Layout, ROOT, Release};
use super::metadata::{Packument, packument};
use super::name::NpmName;
use super::pick::pick;
use super::settings::{NpmSettings, redacted_url};
use super::spec::{Dependency, NpmSpec, VersionSpec, range};
use super::store::NpmStore;
use super::target::Target;
use super::tree::{self, NpmTree};

/// Maximum number of packages of a tree.
const MAX_PACKAGES: usize = 2_000;
/// Maximum depth of a place.
const MAX_DEPTH: usize = 32;
/// Maximum number of concurrent requests.
const MAX_CONCURRENT_REQUESTS: usize = 16;

/// Resolves the specs with the versions that are currently published.
#[tracing::instrument(level = "debug", name = "resolve_npm", skip_all)]
pub(super) async fn resolve(
    specs: &[NpmSpec],
    settings: &NpmSettings<'_>,
    client: &Client<'_>,
    store: &NpmStore,
) -> Result<NpmTree, NpmError> {
    let requested = specs.iter().map(|spec| Edge {
        place: spec.name().clone(),
        kind: DependencyKind::Required,
        text: spec.wanted().to_owned(),
        dependency: Some(Dependency { name: spec.name().clone(), wanted: spec.to_version_spec() }),
    });
    let (packuments, failed, layout) = (HashMap::new(), HashMap::new(), Layout::new());
    let mut resolution = Resolution { specs, settings, client, store, packuments, failed, layout };
    resolution.run(requested.collect()).await?;
    Ok(NpmTree { requested: tree::requested(specs), packages: resolution.layout.packages() })
}

struct Resolution<'r> {
    specs: &'r [NpmSpec],
    settings: &'r NpmSettings<'r>,
    client: &'r Client<'r>,
    store: &'r NpmStore,
    packuments: HashMap<NpmName, Packument>,
    failed: HashMap<NpmName, NpmError>,
    layout: Layout,
}

impl Resolution<'_> {
    /// Resolves level by level, so that the metadata of a level's names can be requested concurrently.
    async fn run(&mut self, requested: Vec<Edge>) -> Result<(), NpmError> {
        let mut level = VecDeque::from([(ROOT, requested)]);
        while !level.is_empty() {
            self.fetch_metadata(&level).await;
            let mut next = VecDeque::new();
            for (node, edges) in level {
                for edge in edges {
                    if let Some(at) = self.resolve_edge(node, &edge).await? {
                        let edges = self.layout.release(at).map(|release| release.edges.clone());
                        next.push_back((at, edges.unwrap_or_default()));
                    }
                }
            }
            level = next;
        }
        Ok(())
    }

    /// Requests the metadata of the dependencies that no placed package satisfies yet.
    async fn fetch_metadata(&mut self, level: &VecDeque<(usize, Vec<Edge>)>) {
        let edges = level.iter().flat_map(|(node, edges)| edges.iter().map(move |edge| (*node, edge)));
        let wanted = edges.filter(|(node, edge)| self.found(*node, edge).is_none());
        let names = wanted.filter_map(|(_, edge)| Some(edge.dependency.as_ref()?.name.clone()));
        let names: BTreeSet<NpmName> = names.filter(|name| !self.packuments.contains_key(name)).collect();
        let (settings, client, store) = (self.settings, self.client, self.store);
        let answers = stream::iter(names).map(|name| async move {
            let answer = packument(&name, settings, client, store).await;
            (name, answer)
        });
        let answers: Vec<_> = answers.buffer_unordered(MAX_CONCURRENT_REQUESTS).collect().await;
        for (name, answer) in answers {
            match answer {
                Ok(packument) => drop(self.packuments.insert(name, packument)),
                Err(error) => drop(self.failed.insert(name, error)),
            }
        }
    }

    /// Returns the placed package that satisfies a dependency, if any.
    fn found(&self, node: usize, edge: &Edge) -> Option<usize> {
        let found = self.layout.lookup(self.layout.start(node, edge.kind), &edge.place)?;
        self.layout.satisfies(found, edge.dependency.as_ref()?).then_some(found)
    }

    /// Resolves one dependency of a node. Returns the node that was added for it, if any.
    async fn resolve_edge(&mut self, node: usize, edge: &Edge) -> Result<Option<usize>, NpmError> {
        let optional = edge.kind == DependencyKind::Optional || self.layout.is_optional(node);
        match self.try_resolve_edge(node, edge, optional).await {
            // An optional dependency may be missing. If the registry cannot be reached, however, its existence is
            // unknown.
            Err(error) if optional && !matches!(error, NpmError::Unreachable { .. } | NpmError::TooMany { .. }) => {
                Ok(None)
            }
            done => done,
        }
    }

    async fn try_resolve_edge(&mut self, node: usize, edge: &Edge, optional: bool) -> Result<Option<usize>, NpmError> {
        let start = self.layout.start(node, edge.kind);
        let Some(dependency) = &edge.dependency else {
            return Err(NpmError::UnsupportedDependency {
                package: self.display_name(node),
                dependency: edge.place.to_string(),
                wanted: edge.text.clone(),
            });
        };
        if let Some(found) = self.found(node, edge) {
            self.layout.record_lookup(start, &edge.place, dependency.clone(), found, optional);
            return Ok(None);
        }
        if !self.packuments.contains_key(&dependency.name) {
            let packument = match self.failed.remove(&dependency.name) {
                Some(error) => return Err(error),
                None => packument(&dependency.name, self.settings, self.client, self.store).await?,
            };
            self.packuments.insert(dependency.name.clone(), packument);
        }
        let release = self.choose_release(dependency, edge)?;
        // From here on, a tag stands for the version that it was resolved to.
        let exact = match &dependency.wanted {
            VersionSpec::Range(range) => range.clone(),
            VersionSpec::Tag(_) => range(&release.version).unwrap_or_else(Range::any),
        };
        let dependency = Dependency { name: dependency.name.clone(), wanted: VersionSpec::Range(exact) };
        if let Some(taken) = self.layout.lookup(start, &edge.place) {
            if self.layout.satisfies(taken, &dependency) {
                self.layout.record_lookup(start, &edge.place, dependency, taken, optional);
                return Ok(None);
            }
            if self.layout.is_taken(start, &edge.place) {
                return self.handle_conflict(node, edge, start, taken);
            }
        }
        if self.layout.len() >= MAX_PACKAGES {
            return Err(NpmError::TooMany { what: "packages", allowed: MAX_PACKAGES as u64 });
        }
        let at = self.layout.hoist(start, &edge.place, release, optional);
        self.layout.record_lookup(start, &edge.place, dependency, at, optional);
        if self.layout.depth(at) > MAX_DEPTH {
            return Err(NpmError::TooMany { what: "levels of node_modules", allowed: MAX_DEPTH as u64 });
        }
        Ok(Some(at))
    }

    /// Handles a dependency whose name is taken by another version and that cannot be put elsewhere. At the top level
    /// that is an error; deeper in the tree npm tolerates it, and so does this resolution.
    fn handle_conflict(&self, node: usize, edge: &Edge, start: usize, taken: usize) -> Result<Option<usize>, NpmError> {
        if start != ROOT || self.layout.depth(node) > 1 {
            return Ok(None);
        }
        if node == ROOT {
            let same = self.specs.iter().filter(|spec| *spec.name() == edge.place);
            let wanted = same.map(|spec| spec.wanted().to_owned()).collect();
            return Err(NpmError::ConflictingRequests { name: edge.place.to_string(), wanted });
        }
        Err(NpmError::Peer {
            package: self.display_name(node),
            peer: edge.place.to_string(),
            wanted: edge.text.clone(),
            found: self.display_name(taken),
        })
    }

    fn display_name(&self, node: usize) -> String {
        let release = self.layout.release(node);
        release.map_or_else(|| "the job".to_owned(), |release| format!("{}@{}", release.name, release.version))
    }

    fn choose_release(&self, dependency: &Dependency, edge: &Edge) -> Result<Release, NpmError> {
        let name = &dependency.name;
        let packument = &self.packuments[name];
        let (version, manifest) = pick(packument, &dependency.wanted).ok_or_else(|| NpmError::NoVersion {
            name: name.to_string(),
            wanted: edge.text.clone(),
            latest: packument.tags.get("latest").cloned().unwrap_or_else(|| "unknown".to_owned()),
        })?;
        let package = format!("{name}@{version}");
        let (admitted, restricted) = Target::supports(manifest);
        if !admitted {
            return Err(NpmError::System { package });
        }
        // Install scripts never run, so an optional package with one counts as failed, as it would in npm. A package
        // for one system needs no script.
        if edge.kind == DependencyKind::Optional && !restricted && manifest["hasInstallScript"].as_bool() == Some(true)
        {
            return Err(NpmError::System { package });
        }
        let (integrity, url) = archive(name, version, manifest, self.settings)?;
        let edges = edges(&package, manifest)?;
        Ok(Release { name: name.clone(), version: version.to_owned(), integrity, url, system: restricted, edges })
    }
}

/// Returns the digest and the URL of one version's archive, as the registry lists them.
pub(super) fn archive(
    name: &NpmName,
    version: &str,
    manifest: &Value,
    settings: &NpmSettings<'_>,
) -> Result<(Integrity, Url), NpmError> {
    let package = format!("{name}@{version}");
    let dist = &manifest["dist"];
    let announced = dist["integrity"].as_str().map(str::parse::<Integrity>).transpose();
    let announced =
        announced.map_err(|error| NpmError::NoIntegrity { package: package.clone(), source: Some(error) })?;
    let integrity = announced.or_else(|| dist["shasum"].as_str().and_then(Integrity::from_shasum));
    let integrity = integrity.ok_or_else(|| NpmError::NoIntegrity { package: package.clone(), source: None })?;
    let registry = settings.registry_for(name);
    let url = dist["tarball"].as_str().and_then(|text| registry.join(text).ok()).ok_or_else(|| {
        NpmError::InvalidResponse {
            registry: redacted_url(registry),
            what: package,
            detail: "`dist.tarball` is missing".to_owned(),
        }
    })?;
    let url = settings.archive_url(name, url);
    // Credentials in a URL would end up in lock files, and credentials from a registry are not used.
    let url: Url = redacted_url(&url).parse().unwrap_or(url);
    Ok((integrity, url))
}

/// Returns the dependencies of a package's manifest: the peers first, then the others, each by name.
fn edges(package: &str, manifest: &Value) -> Result<Vec<Edge>, NpmError> {
    let table = |key: &str| manifest[key].as_object().into_iter().flatten();
    let has = |key: &str, name: &str| manifest[key].as_object().is_some_and(|table| table.contains_key(name));
    let bundled = |name: &str| {
        ["bundleDependencies", "bundledDependencies"].iter().any(|key| match &manifest[*key] {
            Value::Bool(all) => *all,
            Value::Array(names) => names.iter().any(|bundled| bundled == name),
            _ => false,
        })
    };
    let is_required_peer = |name: &str| manifest["peerDependenciesMeta"][name]["optional"].as_bool() != Some(true);
    let peers = table("peerDependencies").filter(|(name, _)| is_required_peer(name) && !has("dependencies", name));
    let peers = peers.map(|one| (DependencyKind::Peer, one));
    let needed = table("dependencies").filter(|(name, _)| !has("optionalDependencies", name) && !bundled(name));
    let needed = needed.map(|one| (DependencyKind::Required, one));
    let optional =
        table("optionalDependencies").filter(|(name, _)| !bundled(name)).map(|one| (DependencyKind::Optional, one));
    let mut edges = Vec::new();
    for (kind, (name, value)) in peers.chain(needed).chain(optional) {
        let read = name.parse::<NpmName>().ok().zip(value.as_str());
        match (read, kind) {
            (Some((place, text)), _) => {
                edges.push(Edge { dependency: Dependency::read(&place, text), place, kind, text: text.to_owned() });
            }
            // A name that is not valid as a directory name is not a package name.
            (None, DependencyKind::Required) => {
                let (package, dependency) = (package.to_owned(), name.clone());
                return Err(NpmError::UnsupportedDependency { package, dependency, wanted: value.to_string() });
            }
            (None, DependencyKind::Peer | DependencyKind::Optional) => {}
        }
    }
    edges.sort_by_cached_key(|edge| (edge.kind != DependencyKind::Peer, edge.place.clone()));
    Ok(edges)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_dependencies_of_manifest() {
        let manifest = json!({
            "dependencies": {"b": "^1", "a": "git://x/y", "o": "1", "in": "1"},
            "optionalDependencies": {"o": "2", "../x": "1"},
            "peerDependencies": {"p": "*", "q": "*", "b": "9"},
            "peerDependenciesMeta": {"q": {"optional": true}},
            "bundleDependencies": ["in"]
        });
        let read: Vec<_> = edges("a@1", &manifest)
            .expect("names")
            .into_iter()
            .map(|edge| (edge.place.to_string(), edge.kind, edge.text, edge.dependency.is_some()))
            .collect();
        let expected = [
            ("p", DependencyKind::Peer, "*", true),
            ("a", DependencyKind::Required, "git://x/y", false),
            ("b", DependencyKind::Required, "^1", true),
            ("o", DependencyKind::Optional, "2", true),
        ];
        assert_eq!(read, expected.map(|(name, kind, text, fine)| (name.to_owned(), kind, text.to_owned(), fine)));
        let odd = json!({"dependencies": ["a"], "peerDependencies": 1, "bundleDependencies": true});
        assert!(edges("a@1", &odd).is_ok_and(|edges| edges.is_empty()));
        for bad in [json!({"dependencies": {"../x": "1"}}), json!({"dependencies": {"x": 1}})] {
            assert!(matches!(edges("a@1", &bad), Err(NpmError::UnsupportedDependency { .. })), "{bad}");
        }
    }
}
