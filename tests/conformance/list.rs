//! Checks of the case list itself, so that it cannot shrink unnoticed.

use std::collections::HashSet;

use libtest_mimic::{Failed, Trial};

use crate::backend::Backend;
use crate::cases;
use crate::language::Language;
use crate::tier::Tier;

/// Number of programs that each tier leaves out, each with the reason in its case. A change of a number needs a
/// decision: a case that can hold on both tiers must run on both.
const EXCLUDED: [(Tier, Language, usize); 8] = [
    (Tier::Wasm, Language::Python, 3),
    (Tier::Wasm, Language::JavaScript, 3),
    (Tier::Wasm, Language::TypeScript, 3),
    (Tier::Wasm, Language::Lua, 0),
    (Tier::Container, Language::Python, 25),
    (Tier::Container, Language::JavaScript, 3),
    (Tier::Container, Language::TypeScript, 9),
    (Tier::Container, Language::Lua, 16),
];

pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("list::tiers_exclude_only_listed_cases", tiers_exclude_only_listed_cases),
        Trial::test("list::case_names_are_unique", case_names_are_unique),
        Trial::test("list::every_tier_has_a_backend", every_tier_has_a_backend),
    ]
}

fn tiers_exclude_only_listed_cases() -> Result<(), Failed> {
    let mut wrong = String::new();
    for (tier, language, expected) in EXCLUDED {
        let cases = cases::all();
        let excluded: Vec<String> = cases
            .iter()
            .filter_map(|case| case.exclusion_reason(language, tier).map(|reason| format!("{}: {reason}", case.name)))
            .collect();
        if excluded.len() != expected {
            let (language, found) = (language.name(), excluded.len());
            wrong.push_str(&format!("\n{tier:?} leaves out {found} in {language} and not {expected}:\n  "));
            wrong.push_str(&excluded.join("\n  "));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.into()) }
}

fn case_names_are_unique() -> Result<(), Failed> {
    let mut names = HashSet::new();
    match cases::all().into_iter().find(|case| !names.insert(case.name)) {
        Some(case) => Err(format!("{} is listed twice", case.name).into()),
        None => Ok(()),
    }
}

fn every_tier_has_a_backend() -> Result<(), Failed> {
    let without_backend =
        Tier::ALL.into_iter().find(|tier| !Backend::ALL.iter().any(|backend| backend.tier() == *tier));
    without_backend.map_or(Ok(()), |tier| Err(format!("no backend has the tier {tier:?}").into()))
}
