use std::collections::BTreeMap;

use codebox_core::Held;

use super::*;

fn capable(name: &'static str, isolation: Isolation) -> Probed {
    let found = Capabilities {
        languages: vec![Language::Python],
        forbidden: BTreeMap::new(),
        isolation,
        limits: BTreeMap::from([(LimitKind::Wall, Held::Enforced)]),
        snapshot: Support::No,
        fork: Support::No,
        network_filter: Support::No,
        offline: Vec::new(),
        fuel: Support::No,
        engine: None,
    };
    Probed { backend: BackendId::new(name), found: Ok(found) }
}

fn demand() -> Demand {
    Demand { language: Language::Python, limits: vec![LimitKind::Wall], network: Network::None, bound: None }
}

#[test]
fn the_lightest_accepted_isolation_wins() {
    let both = [capable("podman", Isolation::Container), capable("wasm", Isolation::Wasm)];
    let choice = route(&demand(), &both, IsolationSet::auto()).expect("two can");
    assert_eq!(choice.backend.as_str(), "wasm");
    assert_eq!(choice.reason, "wasm is the lightest isolation that can run this python program");
    let only = IsolationSet::only(Isolation::Container);
    let choice = route(&demand(), &both, only).expect("podman can");
    assert_eq!(choice.backend.as_str(), "podman");
    assert_eq!(choice.rejected.len(), 1);
}

#[test]
fn a_named_isolation_is_never_swapped() {
    let only = IsolationSet::only(Isolation::Container);
    let none = route(&demand(), &[capable("wasm", Isolation::Wasm)], only).expect_err("only wasm");
    assert_eq!(none.kind(), ResultKind::EngineUnavailable);
    assert_eq!(none.fix(), "use --isolation wasm or auto");
    assert_eq!(
        none.to_string(),
        "no backend can run this with isolation container: \
         wasm: it gives isolation wasm, and only container is accepted; \
         container: no container backend in this build"
    );
}

#[test]
fn every_candidate_says_why_not() {
    let missing = Probed {
        backend: BackendId::new("wasm"),
        found: Err(Unavailable { reason: "no cache directory".to_owned(), fix: "set CODEBOX_HOME".to_owned() }),
    };
    let only = IsolationSet::only(Isolation::Wasm);
    let none = route(&demand(), &[missing], only).expect_err("it is unavailable");
    assert_eq!((none.kind(), none.fix().as_str()), (ResultKind::EngineUnavailable, "set CODEBOX_HOME"));
    assert_eq!(none.rejected.len(), 1);

    let wasm = [capable("wasm", Isolation::Wasm)];
    let unheld = Demand { limits: vec![LimitKind::Fuel], ..demand() };
    let none = route(&unheld, &wasm, IsolationSet::auto()).expect_err("fuel is not held");
    assert_eq!(none.kind(), ResultKind::InvalidRequest);
    assert!(none.fix().contains("fuel"), "{}", none.fix());

    let other = Demand { language: Language::TypeScript, ..demand() };
    let none = route(&other, &wasm, IsolationSet::auto()).expect_err("it runs python");
    assert!(none.to_string().contains("does not run typescript"), "{none}");

    let mut narrowed = capable("podman", Isolation::Container);
    let able = narrowed.found.as_mut().expect("it is there");
    able.languages.clear();
    able.forbidden.insert(Language::Python, "registry.example/python:3".parse().expect("an image's name"));
    let none = route(&demand(), &[narrowed.clone()], IsolationSet::auto()).expect_err("its image is not allowed");
    assert_eq!(none.kind(), ResultKind::Denied);
    assert!(none.to_string().contains("does not allow registry.example/python:3"), "{none}");
    // A named image is checked at admission, so the language's own image does not matter.
    let named = Demand { bound: Some(Bound::Image("other".to_owned())), ..demand() };
    let none = route(&named, &[narrowed], IsolationSet::auto()).expect_err("it runs nothing");
    assert_ne!(none.kind(), ResultKind::Denied);

    let online = Demand { network: Network::Hosts, ..demand() };
    let none = route(&online, &wasm, IsolationSet::auto()).expect_err("no network");
    assert_eq!(none.kind(), ResultKind::InvalidRequest);
    let mut able = capable("wasm", Isolation::Wasm);
    if let Ok(able) = &mut able.found {
        able.network_filter = Support::Yes;
    }
    assert!(route(&online, &[able.clone()], IsolationSet::auto()).is_ok());
    if let Ok(able) = &mut able.found {
        able.offline = vec![online.language.clone()];
    }
    assert!(route(&online, &[able], IsolationSet::auto()).is_err(), "this language has none there");
    assert!(route(&demand(), &[], IsolationSet::auto()).is_err());
}
