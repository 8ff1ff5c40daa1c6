//! Properties that hold for any map. The paths consist of few names, so that they often overlap.

use super::*;
use crate::path::kind::{posix_component_fault, posix_fault};

type Steps = Vec<(String, String)>;

fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b", "a-b", "ab", "a b", "\u{e9}", "e\u{301}", "%", ":"]);
    vec(name, 0..5).prop_map(|names| format!("/{}", names.join("/")))
}

fn steps() -> impl Strategy<Value = Steps> {
    vec((path(), path()), 0..6)
}

/// Generates paths of two names, so that the mounts and holes of two or three maps often coincide.
fn dense() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b"]);
    vec(name, 0..5).prop_map(|names| format!("/{}", names.join("/")))
}

fn dense_steps() -> impl Strategy<Value = Steps> {
    vec((dense(), dense()), 0..6)
}

/// Builds a map from the mounts in `steps` that do not conflict.
fn build<A: MappedPath, B: MappedPath>(
    steps: &Steps,
    from: impl Fn(&str) -> A,
    to: impl Fn(&str) -> B,
) -> PathMap<A, B> {
    let mut mounts: Vec<Mount<A, B>> = Vec::new();
    for (outside, inside) in steps {
        let next = mount(from(outside), to(inside));
        if mounts.iter().all(|m| m.to != next.to) {
            mounts.push(next);
        }
    }
    PathMap::new(mounts).expect("the mounts do not conflict")
}

fn vm(text: &str) -> VmPath {
    VmPath::new(text).expect("a VM path")
}

/// Returns true if `ancestor` contains `path`, compared as text: equal, or continued after a separator.
fn contains(ancestor: &str, path: &str) -> bool {
    ancestor == "/" || path == ancestor || path.starts_with(&format!("{ancestor}/"))
}

/// Returns the outside path of an inside path, computed on text.
fn oracle(steps: &[(String, String)], inside: &str) -> Option<String> {
    let (from, to) = steps
        .iter()
        .filter(|(_, to)| contains(to, inside))
        .max_by_key(|(_, to)| to.matches('/').count() - usize::from(to == "/"))?;
    let rest = inside[to.trim_end_matches('/').len()..].trim_start_matches('/');
    let joined = format!("{}/{rest}", from.trim_end_matches('/'));
    Some(if joined.len() > 1 { joined.trim_end_matches('/').to_owned() } else { joined })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn fault_is_that_of_the_first_bad_component(text in "/[/.a\0é]{0,8}") {
        let fault = if text == "/" { None } else { text[1..].split('/').find_map(posix_component_fault) };
        prop_assert_eq!(posix_fault(&text), fault);
    }

    #[test]
    fn containment_matches_oracle(ancestor in path(), below in path()) {
        prop_assert_eq!(guest(&below).is_within(&guest(&ancestor)), contains(&ancestor, &below));
        prop_assert_eq!(unix(&below).is_within(&unix(&ancestor)), contains(&ancestor, &below));
    }

    #[test]
    fn to_host_matches_oracle(steps in steps(), inside in path()) {
        let map = build(&steps, unix, guest);
        let kept: Steps =
            map.mounts().iter().map(|m| (m.from.to_string(), m.to.to_string())).collect();
        let found = map.to_host(&guest(&inside)).ok().map(|p| p.to_string());
        prop_assert_eq!(found, oracle(&kept, &inside));
    }

    #[test]
    fn to_host_inverts_to_guest(steps in steps(), outside in path()) {
        let map = build(&steps, unix, guest);
        if let Ok(inside) = map.to_guest(&unix(&outside)) {
            prop_assert_eq!(map.to_host(&inside), Ok(unix(&outside)));
        } else {
            // The map refuses a path only if no inside path maps to it: check the path through each mount.
            for m in map.mounts().iter().filter(|m| contains(m.from.as_str(), &outside)) {
                let rest = &outside[m.from.as_str().trim_end_matches('/').len()..];
                let rebased = format!("{}{rest}", m.to.as_str().trim_end_matches('/'));
                let rebased = if rebased.is_empty() { "/" } else { rebased.as_str() };
                let rebased = if rebased.len() > 1 { rebased.trim_end_matches('/') } else { rebased };
                prop_assert_ne!(map.to_host(&guest(rebased)), Ok(unix(&outside)));
            }
        }
    }

    #[test]
    fn to_guest_inverts_to_host(steps in steps(), inside in path()) {
        let map = build(&steps, unix, guest);
        if let Ok(outside) = map.to_host(&guest(&inside)) {
            let round_trip = map.to_guest(&outside).expect("the path is mapped");
            prop_assert_eq!(map.to_host(&round_trip), Ok(outside));
        }
    }

    #[test]
    fn composed_map_equals_both_steps(first in dense_steps(), second in dense_steps(), inside in dense()) {
        let first = build(&first, unix, vm);
        let second = build(&second, vm, guest);
        let inside = guest(&inside);
        let stepwise = second.to_host(&inside).ok().and_then(|p| first.to_host(&p).ok());
        prop_assert_eq!(first.then(&second).to_host(&inside).ok(), stepwise);
    }

    #[test]
    fn composition_is_associative(
        one in dense_steps(), two in dense_steps(), three in dense_steps(), inside in dense(), outside in dense(),
    ) {
        let one = build(&one, unix, vm);
        let two = build(&two, vm, vm);
        let three = build(&three, vm, guest);
        let left = one.then(&two).then(&three);
        let right = one.then(&two.then(&three));
        prop_assert_eq!(left.to_host(&guest(&inside)).ok(), right.to_host(&guest(&inside)).ok());
        let mapped = (left.to_guest(&unix(&outside)), right.to_guest(&unix(&outside)));
        prop_assert_eq!(mapped.0.is_ok(), mapped.1.is_ok());
        for guest_path in [mapped.0, mapped.1].into_iter().flatten() {
            prop_assert_eq!(left.to_host(&guest_path), Ok(unix(&outside)));
        }
    }
}
