//! Placement of packages below `node_modules`: each as high as possible, as npm does it.
//!
//! The module only computes places and does not choose versions. A package is found by a search for a directory of its
//! name, from the dependent upwards, so a package at one place can hide another above it; no package is put where it
//! would hide one that is in use and could not replace it.

use std::collections::{BTreeMap, HashMap};

use node_semver::Range;
use url::Url;

use super::integrity::Integrity;
use super::name::NpmName;
use super::spec::{Dependency, VersionSpec, range_includes};
use super::tree::NpmPackage;

/// Index of the root node, which is above all packages.
pub(super) const ROOT: usize = 0;

/// Kind of a dependency on another package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DependencyKind {
    /// A peer dependency: installed beside the package, and shared with its dependents.
    Peer,
    Required,
    /// A dependency that may be missing.
    Optional,
}

/// A package's dependency on another.
#[derive(Debug, Clone)]
pub(super) struct Edge {
    /// The name by which the dependency is searched.
    pub(super) place: NpmName,
    pub(super) kind: DependencyKind,
    /// The requested version as written, for messages.
    pub(super) text: String,
    /// The name and version; `None` for an address, a repository or a file.
    pub(super) dependency: Option<Dependency>,
}

/// One version of a package.
#[derive(Debug, Clone)]
pub(super) struct Release {
    pub(super) name: NpmName,
    pub(super) version: String,
    pub(super) integrity: Integrity,
    pub(super) url: Url,
    pub(super) system: bool,
    pub(super) edges: Vec<Edge>,
}

/// A package at its place.
struct Node {
    parent: usize,
    place: Option<NpmName>,
    children: BTreeMap<NpmName, usize>,
    release: Option<Release>,
    /// True if all of the dependents can do without the package.
    optional: bool,
}

/// A search that found a package.
struct Lookup {
    /// The node where the search started.
    from: usize,
    dependency: Dependency,
    at: usize,
}

/// A tree of packages at their places.
pub(super) struct Layout {
    nodes: Vec<Node>,
    found: HashMap<NpmName, Vec<Lookup>>,
}

impl Layout {
    pub(super) fn new() -> Self {
        let root = Node { parent: ROOT, place: None, children: BTreeMap::new(), release: None, optional: false };
        Self { nodes: vec![root], found: HashMap::new() }
    }

    /// Returns the number of packages.
    pub(super) fn len(&self) -> usize {
        self.nodes.len() - 1
    }

    pub(super) fn release(&self, node: usize) -> Option<&Release> {
        self.nodes[node].release.as_ref()
    }

    pub(super) fn is_optional(&self, node: usize) -> bool {
        self.nodes[node].optional
    }

    /// Returns the depth of a node below the root.
    pub(super) fn depth(&self, node: usize) -> usize {
        self.ancestors(node).count() - 1
    }

    /// Returns a node and all nodes above it, the root last.
    fn ancestors(&self, node: usize) -> impl Iterator<Item = usize> {
        let up = move |at: &usize| (*at != ROOT).then(|| self.nodes[*at].parent);
        std::iter::successors(Some(node), up)
    }

    /// Returns the node where the search for a dependency of `node` starts.
    pub(super) fn start(&self, node: usize, kind: DependencyKind) -> usize {
        if kind == DependencyKind::Peer { self.nodes[node].parent } else { node }
    }

    /// Returns the node that a search from `start` finds under a name.
    pub(super) fn lookup(&self, start: usize, name: &NpmName) -> Option<usize> {
        self.ancestors(start).find_map(|at| self.nodes[at].children.get(name).copied())
    }

    /// Returns true if the package at a node satisfies a dependency.
    pub(super) fn satisfies(&self, node: usize, wanted: &Dependency) -> bool {
        self.release(node).is_some_and(|release| is_match(release, wanted))
    }

    /// Returns true if `start` has a child with this name.
    pub(super) fn is_taken(&self, start: usize, name: &NpmName) -> bool {
        self.nodes[start].children.contains_key(name)
    }

    /// Records that a search from `start` found `at`.
    pub(super) fn record_lookup(
        &mut self,
        start: usize,
        name: &NpmName,
        dependency: Dependency,
        at: usize,
        optional: bool,
    ) {
        if !optional {
            self.nodes[at].optional = false;
        }
        self.found.entry(name.clone()).or_default().push(Lookup { from: start, dependency, at });
    }

    /// Places a release at the highest node where a search from `start` finds it under a name. The name must be free at
    /// `start`.
    pub(super) fn hoist(&mut self, start: usize, name: &NpmName, release: Release, optional: bool) -> usize {
        let mut best = start;
        for at in self.ancestors(start) {
            if self.is_taken(at, name) || self.shadows(at, name, &release) {
                break;
            }
            // Higher up, the search may find other peers.
            if at != start && self.breaks_peer(at, &release) {
                break;
            }
            best = at;
        }
        let node = self.nodes.len();
        let place = Some(name.clone());
        self.nodes.push(Node { parent: best, place, children: BTreeMap::new(), release: Some(release), optional });
        self.nodes[best].children.insert(name.clone(), node);
        // Searches that passed this place find the new node from now on, which satisfies them: see `shadows`.
        let mut found = self.found.remove(name).unwrap_or_default();
        for one in &mut found {
            if self.passes(best, one) {
                one.at = node;
            }
        }
        self.found.insert(name.clone(), found);
        node
    }

    /// Returns true if the release at `at` would hide a package from a search that it does not satisfy.
    fn shadows(&self, at: usize, name: &NpmName, release: &Release) -> bool {
        let found = self.found.get(name).into_iter().flatten();
        found.filter(|found| self.passes(at, found)).any(|found| !is_match(release, &found.dependency))
    }

    /// Returns true if a recorded search passed `at` before it found its package.
    fn passes(&self, at: usize, found: &Lookup) -> bool {
        let parent = self.nodes[found.at].parent;
        self.ancestors(found.from).take_while(|passed| *passed != parent).any(|passed| passed == at)
    }

    fn breaks_peer(&self, at: usize, release: &Release) -> bool {
        let peers = release.edges.iter().filter(|edge| edge.kind == DependencyKind::Peer);
        peers
            .filter_map(|edge| Some((self.lookup(at, &edge.place)?, edge.dependency.as_ref()?)))
            .any(|(found, dependency)| !self.satisfies(found, dependency))
    }

    /// Returns the packages, sorted by place.
    pub(super) fn packages(&self) -> Vec<NpmPackage> {
        let mut packages: Vec<NpmPackage> = (1..self.nodes.len()).filter_map(|node| self.package(node)).collect();
        packages.sort_by(|one, other| one.place.cmp(&other.place));
        packages
    }

    fn package(&self, node: usize) -> Option<NpmPackage> {
        let Release { name, version, integrity, url, system, edges: _ } = self.release(node)?.clone();
        let names: Vec<&str> =
            self.ancestors(node).filter_map(|at| self.nodes[at].place.as_ref()).map(NpmName::as_str).collect();
        let place = names.into_iter().rev().collect::<Vec<_>>().join("/node_modules/");
        Some(NpmPackage { place, name, version, integrity, url, system })
    }
}

fn is_match(release: &Release, wanted: &Dependency) -> bool {
    release.name == wanted.name
        && match &wanted.wanted {
            VersionSpec::Range(range) => *range == Range::any() || range_includes(range, &release.version),
            // Tags are resolved to versions before packages are placed.
            VersionSpec::Tag(_) => false,
        }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> NpmName {
        text.parse().expect("a name")
    }

    fn edge(text: &str, range: &str, kind: DependencyKind) -> Edge {
        let place = name(text);
        let dependency = Dependency::read(&place, range);
        Edge { place, kind, text: range.to_owned(), dependency }
    }

    fn release(text: &str, version: &str, edges: Vec<Edge>) -> Release {
        let url = Url::parse("http://127.0.0.1/x.tgz").expect("an address");
        let integrity = Integrity::of(format!("{text} {version}").as_bytes());
        Release { name: name(text), version: version.to_owned(), integrity, url, system: false, edges }
    }

    /// Places the dependencies of a node, from the available releases, in the order of a resolution.
    fn build_layout(available: &[Release], requested: Vec<Edge>) -> Layout {
        let mut layout = Layout::new();
        let mut queue = std::collections::VecDeque::from([(ROOT, requested)]);
        while let Some((node, edges)) = queue.pop_front() {
            for edge in edges {
                let (start, wanted) = (layout.start(node, edge.kind), edge.dependency.expect("a range"));
                if let Some(found) = layout.lookup(start, &edge.place)
                    && layout.satisfies(found, &wanted)
                {
                    layout.record_lookup(start, &edge.place, wanted, found, false);
                    continue;
                }
                let fitting = available.iter().rev().find(|release| is_match(release, &wanted));
                let (Some(release), false) = (fitting.cloned(), layout.is_taken(start, &edge.place)) else { continue };
                let edges = release.edges.clone();
                let at = layout.hoist(start, &edge.place, release, false);
                layout.record_lookup(start, &edge.place, wanted, at, false);
                queue.push_back((at, edges));
            }
        }
        layout
    }

    fn places(layout: &Layout) -> Vec<String> {
        layout.packages().iter().map(|package| format!("{} {}", package.place, package.version)).collect()
    }

    #[test]
    fn hoists_compatible_and_nests_conflicting_versions() {
        let available = [
            release("c", "1.0.0", vec![]),
            release("c", "2.0.0", vec![]),
            release("a", "1.0.0", vec![edge("c", "^1", DependencyKind::Required)]),
            release("b", "1.0.0", vec![edge("c", "^2", DependencyKind::Required)]),
            release("d", "1.0.0", vec![edge("c", "^2", DependencyKind::Required)]),
        ];
        let requested = ["a", "b", "d"].map(|name| edge(name, "*", DependencyKind::Required)).to_vec();
        assert_eq!(
            places(&build_layout(&available, requested)),
            ["a 1.0.0", "b 1.0.0", "b/node_modules/c 2.0.0", "c 1.0.0", "d 1.0.0", "d/node_modules/c 2.0.0"]
        );
    }

    #[test]
    fn places_plugin_beside_its_peer() {
        let available = [
            release("host", "1.0.0", vec![]),
            release("host", "2.0.0", vec![]),
            release("plugin", "1.0.0", vec![edge("host", "^1", DependencyKind::Peer)]),
            release(
                "old",
                "1.0.0",
                vec![edge("host", "^1", DependencyKind::Required), edge("plugin", "*", DependencyKind::Required)],
            ),
        ];
        let alone = build_layout(&available, vec![edge("plugin", "*", DependencyKind::Required)]);
        assert_eq!(places(&alone), ["host 1.0.0", "plugin 1.0.0"]);
        let both = build_layout(
            &available,
            vec![edge("host", "^2", DependencyKind::Required), edge("old", "*", DependencyKind::Required)],
        );
        assert_eq!(
            places(&both),
            ["host 2.0.0", "old 1.0.0", "old/node_modules/host 1.0.0", "old/node_modules/plugin 1.0.0"]
        );
    }

    #[test]
    fn places_cyclic_dependencies() {
        let available = [
            release("a", "1.0.0", vec![edge("b", "*", DependencyKind::Required)]),
            release("b", "1.0.0", vec![edge("a", "*", DependencyKind::Required)]),
        ];
        assert_eq!(
            places(&build_layout(&available, vec![edge("a", "*", DependencyKind::Required)])),
            ["a 1.0.0", "b 1.0.0"]
        );
    }

    /// Generates packages that depend only on later ones: cyclic dependencies between versions would be nested without
    /// end, which a resolution refuses by their depth.
    fn package_graphs() -> impl Strategy<Value = (Vec<Release>, Vec<Edge>)> {
        let edges = || prop::collection::btree_map(0..6_usize, 1..4_u32, 0..4);
        let read = |after: usize, edges: BTreeMap<usize, u32>| -> Vec<Edge> {
            let one =
                |(name, major): (usize, u32)| edge(&format!("p{name}"), &format!("^{major}"), DependencyKind::Required);
            edges.into_iter().filter(|(name, _)| *name >= after).map(one).collect()
        };
        (prop::collection::vec(edges(), 18), edges()).prop_map(move |(all, requested)| {
            let available = all.into_iter().enumerate().map(|(at, edges)| {
                release(&format!("p{}", at / 3), &format!("{}.0.0", at % 3 + 1), read(at / 3 + 1, edges))
            });
            (available.collect(), read(0, requested))
        })
    }

    proptest! {
        #[test]
        fn dependencies_resolve_to_matching_versions((available, requested) in package_graphs()) {
            let layout = build_layout(&available, requested.clone());
            for node in 0..layout.nodes.len() {
                let edges = layout.release(node).map_or(&requested, |release| &release.edges);
                for edge in edges {
                    let found = layout.lookup(layout.start(node, edge.kind), &edge.place);
                    let wanted = edge.dependency.as_ref().expect("a range");
                    prop_assert!(found.is_some_and(|found| layout.satisfies(found, wanted)), "{:?}", places(&layout));
                }
            }
        }
    }
}
