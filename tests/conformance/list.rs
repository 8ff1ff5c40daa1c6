//! Checks of the case list itself, so that it cannot shrink unnoticed.

use std::collections::HashSet;

use libtest_mimic::{Failed, Trial};

use crate::backend::Backend;
use crate::cases;
use crate::language::Language;
use crate::tier::Tier;

/// Number of programs that each tier leaves out, each with the reason in its case. A change of a number needs a
/// decision: a case that can hold on both tiers must run on both.
const LEFT_OUT: [(Tier, Language, usize); 7] = [
    (Tier::Wasm, Language::Python, 3),
    (Tier::Wasm, Language::JavaScript, 3),
    (Tier::Wasm, Language::TypeScript, 3),
    (Tier::Wasm, Language::Lua, 0),
    (Tier::Container, Language::Python, 25),
    (Tier::Container, Language::JavaScript, 3),
    (Tier::Container, Language::TypeScript, 9),
];

pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("list::tiers_leave_out_only_what_they_say", tiers_leave_out_only_what_they_say),
        Trial::test("list::names_are_given_once", names_are_given_once),
        Trial::test("list::every_tier_has_a_backend", every_tier_has_a_backend),
    ]
}

fn tiers_leave_out_only_what_they_say() -> Result<(), Failed> {
    let mut wrong = String::new();
    for (tier, language, expected) in LEFT_OUT {
        let cases = cases::all();
        let left: Vec<String> = cases
            .iter()
            .filter_map(|case| case.left_out(language, tier).map(|reason| format!("{}: {reason}", case.name)))
            .collect();
        if left.len() != expected {
            let (language, found) = (language.name(), left.len());
            wrong.push_str(&format!("\n{tier:?} leaves out {found} in {language} and not {expected}:\n  "));
            wrong.push_str(&left.join("\n  "));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.into()) }
}

fn names_are_given_once() -> Result<(), Failed> {
    let mut names = HashSet::new();
    match cases::all().into_iter().find(|case| !names.insert(case.name)) {
        Some(case) => Err(format!("{} is there twice", case.name).into()),
        None => Ok(()),
    }
}

fn every_tier_has_a_backend() -> Result<(), Failed> {
    let lacks = Tier::ALL.into_iter().find(|tier| !Backend::ALL.iter().any(|backend| backend.tier() == *tier));
    lacks.map_or(Ok(()), |tier| Err(format!("no backend is of the tier {tier:?}").into()))
}
