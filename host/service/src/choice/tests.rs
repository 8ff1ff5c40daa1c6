use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use codebox_core::{
    BackendError, BoxFuture, Capabilities, EnforcementLevel, Instance, InstanceSpec, IsolationSet, Language, LimitKind,
    ResultKind, Support,
};

use super::*;
use crate::needs::{Capability, Need, Weight};
use crate::router::ContainerReason;

fn able() -> Capabilities {
    Capabilities {
        languages: vec![Language::Python, Language::JavaScript],
        forbidden: BTreeMap::new(),
        limits: BTreeMap::from([(LimitKind::Wall, EnforcementLevel::Enforced)]),
        snapshot: Support::No,
        fork: Support::No,
        network_filter: Support::No,
        offline: Vec::new(),
        fuel: Support::No,
        engine: None,
    }
}

fn candidate(name: &'static str, found: Option<Result<Capabilities, Unavailable>>) -> Candidate {
    let isolation = name.parse().unwrap_or(Isolation::Container);
    Candidate { backend: BackendId::new(name), isolation, found }
}

fn ready(name: &'static str) -> Candidate {
    candidate(name, Some(Ok(able())))
}

fn missing(name: &'static str) -> Candidate {
    let why = Unavailable { reason: "no socket".to_owned(), fix: format!("start {name}") };
    candidate(name, Some(Err(why)))
}

fn job_requirements() -> JobRequirements {
    JobRequirements {
        is_attached: false,
        language: Language::Python,
        limits: vec![LimitKind::Wall],
        has_hosts: false,
        has_secrets: false,
        bound: None,
    }
}

fn needs(weights: &[Weight]) -> Needs {
    let need = |weight: &Weight| Need {
        power: Capability::Threads,
        weight: *weight,
        line: 3,
        words: "threading.Thread".to_owned(),
    };
    Needs { powers: weights.iter().map(need).collect(), ..Needs::default() }
}

const AUTO: RoutingConstraints = RoutingConstraints {
    acceptable: IsolationSet::auto(),
    escalation: Escalation::Allowed,
    isolation_request: None,
    preferred: None,
};

fn only(isolation: Isolation) -> RoutingConstraints {
    RoutingConstraints { acceptable: IsolationSet::only(isolation), ..AUTO }
}

fn asking(isolation: Isolation) -> RoutingConstraints {
    RoutingConstraints { isolation_request: Some(IsolationRequest { isolation, line: 1 }), ..AUTO }
}

fn forbidden(constraints: RoutingConstraints) -> RoutingConstraints {
    RoutingConstraints { escalation: Escalation::Forbidden, ..constraints }
}

/// Formats the next step as `backend: reason`, `none: fix (kind)` or `probe backend`.
fn outcome(requirements: &TierRequirements, candidates: &[Candidate]) -> String {
    match next(requirements, candidates) {
        RouteStep::Run(choice) => format!("{}: {}", choice.backend, choice.reason),
        RouteStep::NoBackend(why) => format!("none: {} ({})", why.fix(), why.kind()),
        RouteStep::Probe(id) => format!("probe {id}"),
    }
}

/// Every rule of the choice, one per entry.
#[test]
fn selects_backend_by_needs_and_terms() {
    let plain = needs(&[Weight::Optional]);
    let needy = needs(&[Weight::Optional, Weight::Required]);
    let all = [ready("wasm"), ready("podman"), ready("docker")];
    let docker = [ready("wasm"), missing("podman"), ready("docker")];
    let engineless = [ready("wasm"), missing("podman"), missing("docker")];
    let need = "line 3 needs threads (threading.Thread), which WebAssembly does not support";
    let none = "podman: no socket; docker: no socket";
    let rules: Vec<(&str, &Needs, RoutingConstraints, &[Candidate], String)> = vec![
        (
            "nothing needed",
            &plain,
            AUTO,
            &all,
            "wasm: wasm is the lightest isolation that can run this python program".into(),
        ),
        ("a need", &needy, AUTO, &all, format!("podman: {need}")),
        ("a need, the second engine", &needy, AUTO, &docker, format!("docker: {need}")),
        (
            "a need and no engine",
            &needy,
            AUTO,
            &engineless,
            format!("wasm: {need}, but no container is available: {none}"),
        ),
        (
            "a need and no engine in the build",
            &needy,
            AUTO,
            &engineless[..1],
            format!("wasm: {need}, but no container is available: this build has no backend for it"),
        ),
        (
            "a need and a policy",
            &needy,
            forbidden(AUTO),
            &all,
            format!("wasm: {need}, but the policy does not allow escalation"),
        ),
        (
            "a need and wasm named",
            &needy,
            only(Isolation::Wasm),
            &all,
            "wasm: wasm is the only isolation allowed".into(),
        ),
        (
            "a container named",
            &plain,
            only(Isolation::Container),
            &all,
            "podman: container is the only isolation allowed".into(),
        ),
        (
            "a container named, no engine",
            &plain,
            only(Isolation::Container),
            &engineless,
            format!("none: start podman ({})", ResultKind::EngineUnavailable),
        ),
        (
            "a container named and escalation forbidden",
            &needy,
            forbidden(only(Isolation::Container)),
            &all,
            "podman: container is the only isolation allowed".into(),
        ),
        (
            "it asks for less than it needs",
            &needy,
            asking(Isolation::Wasm),
            &all,
            "wasm: line 1 requests isolation wasm".into(),
        ),
        (
            "it asks for a container",
            &plain,
            asking(Isolation::Container),
            &all,
            "podman: line 1 requests isolation container".into(),
        ),
        (
            "it asks for a container, no engine",
            &plain,
            asking(Isolation::Container),
            &engineless,
            format!("wasm: line 1 requests isolation container, but none is available: {none}"),
        ),
        (
            "it asks for a container against the policy",
            &plain,
            forbidden(asking(Isolation::Container)),
            &all,
            "wasm: the policy does not allow the program to request a container".into(),
        ),
        (
            "it asks for a container, wasm is named",
            &plain,
            RoutingConstraints {
                isolation_request: asking(Isolation::Container).isolation_request,
                ..only(Isolation::Wasm)
            },
            &all,
            "wasm: wasm is the only isolation allowed".into(),
        ),
        (
            "it asks for wasm, a container is named",
            &plain,
            RoutingConstraints {
                isolation_request: asking(Isolation::Wasm).isolation_request,
                ..only(Isolation::Container)
            },
            &all,
            "podman: container is the only isolation allowed".into(),
        ),
    ];
    for (rule, needs, constraints, candidates, expected) in rules {
        let requirements = TierRequirements::of(job_requirements(), needs, &constraints);
        assert_eq!(outcome(&requirements, candidates), expected, "{rule}");
    }
}

#[test]
fn container_only_jobs_never_use_wasm() {
    let all = [ready("wasm"), ready("podman")];
    let engineless = [ready("wasm"), missing("podman")];
    for (bound, reason) in [
        (ContainerReason::Command, "podman: a command line requires a container"),
        (ContainerReason::Image("node:22".to_owned()), "podman: the container image node:22 requires a container"),
    ] {
        // A command line has no language of its own.
        let language =
            if bound == ContainerReason::Command { "ruby".parse().expect("a name") } else { Language::Python };
        let job_requirements = JobRequirements { bound: Some(bound), language, ..job_requirements() };
        for constraints in [AUTO, forbidden(AUTO), asking(Isolation::Wasm)] {
            let requirements = TierRequirements::of(job_requirements.clone(), &Needs::default(), &constraints);
            assert_eq!(outcome(&requirements, &all), reason);
            assert_eq!(
                outcome(&requirements, &engineless),
                format!("none: start podman ({})", ResultKind::EngineUnavailable)
            );
        }
        let requirements = TierRequirements::of(job_requirements, &Needs::default(), &only(Isolation::Wasm));
        let fix = format!("none: use --isolation container or auto ({})", ResultKind::InvalidRequest);
        assert_eq!(outcome(&requirements, &all), fix);
    }
}

#[test]
fn unsupported_language_uses_container() {
    let mut container = able();
    container.languages.push(Language::TypeScript);
    let candidates = [ready("wasm"), candidate("podman", Some(Ok(container)))];
    let job_requirements = JobRequirements { language: Language::TypeScript, ..job_requirements() };
    let requirements = TierRequirements::of(job_requirements.clone(), &Needs::default(), &forbidden(AUTO));
    assert_eq!(
        outcome(&requirements, &candidates),
        "podman: wasm: it does not support typescript, and container can run it"
    );
    let none = outcome(&requirements, &candidates[..1]);
    assert!(none.starts_with("none: see codebox runtime list"), "{none}");
    let named = TierRequirements::of(job_requirements, &Needs::default(), &only(Isolation::Wasm));
    assert!(outcome(&named, &candidates).starts_with("none: "));
}

#[test]
fn probes_only_relevant_backends() {
    let unasked = [candidate("podman", None), candidate("wasm", None), candidate("docker", None)];
    let plain = TierRequirements::of(job_requirements(), &Needs::default(), &AUTO);
    assert_eq!(outcome(&plain, &unasked), "probe wasm");
    let with_wasm = [candidate("podman", None), ready("wasm"), candidate("docker", None)];
    assert!(outcome(&plain, &with_wasm).starts_with("wasm: "));

    let needy = TierRequirements::of(job_requirements(), &needs(&[Weight::Required]), &AUTO);
    assert_eq!(outcome(&needy, &unasked), "probe podman");
    assert!(outcome(&needy, &[ready("podman"), candidate("wasm", None)]).starts_with("podman: "));
    assert_eq!(outcome(&needy, &[missing("podman"), candidate("docker", None)]), "probe docker");
    assert_eq!(outcome(&needy, &[missing("podman"), candidate("wasm", None)]), "probe wasm");
}

#[test]
fn choice_lists_missing_features() {
    let needy = needs(&[Weight::Optional, Weight::Required]);
    let would_need = |constraints: RoutingConstraints, candidates: &[Candidate]| match next(
        &TierRequirements::of(job_requirements(), &needy, &constraints),
        candidates,
    ) {
        RouteStep::Run(choice) => choice.would_need.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(would_need(AUTO, &[ready("wasm"), ready("podman")]), 0);
    assert_eq!(would_need(AUTO, &[ready("wasm"), missing("podman")]), 1);
    assert_eq!(would_need(only(Isolation::Wasm), &[ready("wasm"), ready("podman")]), 1);

    let said = lacks(&able(), Isolation::Wasm, &job_requirements(), &needy.powers);
    assert_eq!(said[..2], ["threads", "processes"]);
    assert!(said.contains(&"the memory limit".to_owned()) && !said.contains(&"the wall limit".to_owned()), "{said:?}");
    let said = lacks(&able(), Isolation::Container, &job_requirements(), &needy.powers);
    assert!(!said.contains(&"threads".to_owned()), "{said:?}");
}

struct Counted {
    name: &'static str,
    found: Result<Capabilities, Unavailable>,
    probes: AtomicU32,
}

impl Counted {
    fn new(candidate: Candidate, name: &'static str) -> Self {
        Self { name, found: candidate.found.expect("it was requested"), probes: AtomicU32::new(0) }
    }

    fn probes(&self) -> u32 {
        self.probes.load(Ordering::Relaxed)
    }
}

impl Backend for Counted {
    fn id(&self) -> BackendId {
        BackendId::new(self.name)
    }

    fn isolation(&self) -> Isolation {
        self.name.parse().unwrap_or(Isolation::Container)
    }

    fn probe(&self) -> BoxFuture<'_, Result<Capabilities, Unavailable>> {
        self.probes.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { self.found.clone() })
    }

    fn open<'a>(&'a self, _spec: &'a InstanceSpec) -> BoxFuture<'a, Result<Box<dyn Instance>, BackendError>> {
        Box::pin(async { Err(BackendError::Interrupted { during: "a test".to_owned() }) })
    }
}

/// Returns the error of the choice among these candidates.
fn refusal(job_requirements: JobRequirements, constraints: &RoutingConstraints, candidates: &[Candidate]) -> NoRoute {
    match next(&TierRequirements::of(job_requirements, &Needs::default(), constraints), candidates) {
        RouteStep::NoBackend(why) => why,
        other => panic!("it can run: {other:?}"),
    }
}

#[test]
fn reports_the_reason_against_every_candidate() {
    let none = refusal(job_requirements(), &only(Isolation::Container), &[ready("wasm")]);
    assert_eq!(
        (none.kind(), none.fix().as_str()),
        (ResultKind::EngineUnavailable, "leave --isolation out, or use another one")
    );
    let none = refusal(job_requirements(), &only(Isolation::Wasm), &[missing("wasm")]);
    assert_eq!((none.kind(), none.fix().as_str()), (ResultKind::EngineUnavailable, "start wasm"));

    let unenforced = JobRequirements { limits: vec![LimitKind::Fuel], ..job_requirements() };
    let none = refusal(unenforced, &AUTO, &[ready("wasm")]);
    assert_eq!(none.kind(), ResultKind::InvalidRequest);
    assert!(none.fix().contains("fuel"), "{}", none.fix());

    let other = JobRequirements { language: Language::TypeScript, ..job_requirements() };
    let none = refusal(other, &AUTO, &[ready("wasm")]);
    assert!(none.to_string().contains("does not support typescript"), "{none}");

    let online = JobRequirements { has_hosts: true, ..job_requirements() };
    assert_eq!(refusal(online.clone(), &AUTO, &[ready("wasm")]).kind(), ResultKind::InvalidRequest);
    let filtering = Capabilities { network_filter: Support::Yes, ..able() };
    let connected = candidate("wasm", Some(Ok(filtering.clone())));
    let requirements = TierRequirements::of(online.clone(), &Needs::default(), &AUTO);
    assert!(matches!(next(&requirements, &[connected]), RouteStep::Run(_)));
    let offline = Capabilities { offline: vec![Language::Python], ..filtering };
    assert!(matches!(next(&requirements, &[candidate("wasm", Some(Ok(offline)))]), RouteStep::NoBackend(_)));
}

#[test]
fn reports_an_image_that_is_not_allowed() {
    let image = "registry.example/python:3".parse().expect("an image's name");
    let forbidden = BTreeMap::from([(Language::Python, image)]);
    let narrowed = candidate("podman", Some(Ok(Capabilities { languages: Vec::new(), forbidden, ..able() })));
    let none = refusal(job_requirements(), &AUTO, std::slice::from_ref(&narrowed));
    assert_eq!(none.kind(), ResultKind::Denied);
    assert!(
        none.to_string().contains("image registry.example/python:3, the default for python, is not allowed"),
        "{none}"
    );
    // A named image is checked at admission, so the language's own image does not matter.
    let named = JobRequirements { bound: Some(ContainerReason::Image("other".to_owned())), ..job_requirements() };
    assert_ne!(refusal(named, &AUTO, &[narrowed]).kind(), ResultKind::Denied);
}

#[tokio::test]
async fn does_not_probe_engines_before_needed() {
    let wasm = Counted::new(ready("wasm"), "wasm");
    let podman = Counted::new(missing("podman"), "podman");
    let docker = Counted::new(ready("docker"), "docker");
    let backends: [&dyn Backend; 3] = [&wasm, &podman, &docker];

    let plain = TierRequirements::of(job_requirements(), &Needs::default(), &AUTO);
    let (candidates, chosen) = choose(&plain, &backends, &[]).await;
    assert_eq!(chosen.expect("wasm can").backend.as_str(), "wasm");
    assert_eq!((wasm.probes(), podman.probes(), docker.probes()), (1, 0, 0));
    assert!(candidates[1].found.is_none());

    let needy = TierRequirements::of(job_requirements(), &needs(&[Weight::Required]), &AUTO);
    let (_, chosen) = choose(&needy, &backends, &[]).await;
    let chosen = chosen.expect("docker can");
    assert_eq!(chosen.backend.as_str(), "docker");
    assert_eq!(chosen.rejected[0].to_string(), "podman: no socket");
    assert_eq!((wasm.probes(), podman.probes(), docker.probes()), (1, 1, 1));
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    fn isolations() -> impl Strategy<Value = IsolationSet> {
        let sets = prop::collection::vec(prop::sample::select(Isolation::ALL.to_vec()), 1..4);
        sets.prop_map(|set| IsolationSet::of(set).expect("it has a member"))
    }

    fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
        let made = |(name, there): (&'static str, bool)| if there { ready(name) } else { missing(name) };
        prop::collection::vec((prop::sample::select(vec!["wasm", "podman", "docker", "vm"]), any::<bool>()), 0..5)
            .prop_map(move |chosen| chosen.into_iter().map(made).collect())
    }

    proptest! {
        /// The choice never leaves the accepted isolations, and with escalation forbidden neither needs nor the
        /// program's comment move it out of a WebAssembly backend that can run it.
        #[test]
        fn choice_stays_within_accepted_isolations(
            acceptable in isolations(),
            forbid in any::<bool>(),
            isolation_request in prop::option::of(prop::sample::select(vec![Isolation::Wasm, Isolation::Container])),
            required in 0usize..3,
            candidates in candidates(),
        ) {
            let escalation = if forbid { Escalation::Forbidden } else { Escalation::Allowed };
            let isolation_request = isolation_request.map(|isolation| IsolationRequest { isolation, line: 1 });
            let constraints = RoutingConstraints { acceptable, escalation, isolation_request, preferred: None };
            let requirements = TierRequirements::of(job_requirements(), &needs(&vec![Weight::Required; required]), &constraints);
            let wasm = acceptable.contains(Isolation::Wasm)
                && candidates.iter().any(|one| one.isolation == Isolation::Wasm && one.found.as_ref().is_some_and(Result::is_ok));
            match next(&requirements, &candidates) {
                RouteStep::Run(choice) => {
                    prop_assert!(acceptable.contains(choice.isolation));
                    prop_assert!(!(forbid && wasm) || choice.isolation == Isolation::Wasm);
                    prop_assert!(choice.isolation == Isolation::Wasm || choice.would_need.is_empty());
                }
                RouteStep::NoBackend(_) => prop_assert!(!wasm),
                RouteStep::Probe(id) => prop_assert!(false, "{id} was requested already"),
            }
        }
    }
}
