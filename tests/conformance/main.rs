//! Guarantees for programs, as one list of cases that every backend runs for every language.
//!
//! Trials are named `BACKEND::LANGUAGE::TOPIC::CASE`. If a backend cannot run a language on this machine, the
//! language's trials are ignored with the reason; if `CODEBOX_REQUIRE` names the backend, they fail. A case that is not
//! for a backend's tier has no trial there, and `list::` counts those cases.

mod backend;
mod case;
mod cases;
mod check;
mod expect;
mod language;
mod list;
mod program;
mod server;
mod tier;

use std::sync::Arc;

use anyhow::Result;
use codebox_testkit::Kit;
use libtest_mimic::{Arguments, Completion, Trial};

use backend::{Availability, Backend};
use case::Case;
use language::Language;

fn main() -> Result<()> {
    let args = Arguments::from_args();
    let kit = Kit::new(env!("CARGO_BIN_EXE_codebox"), env!("CARGO_TARGET_TMPDIR"));
    let mut trials = list::trials();
    for backend in Backend::ALL {
        for language in Language::ALL.into_iter().filter(|language| backend.runs(*language)) {
            let ready = Arc::new(backend.lazy_availability(language, kit.clone()));
            let cases = cases::all().into_iter().filter(|case| case.runs(language, backend.tier())).enumerate();
            let cases = cases.filter(|(number, case)| backend.selects(language, *number) && backend.has_time_for(case));
            trials.extend(cases.map(|(_, case)| trial(&kit, backend, language, case, &ready)));
        }
    }
    let conclusion = libtest_mimic::run(&args, trials);
    backend::stop_host()?;
    backend::stop_machine(&kit)?;
    conclusion.exit()
}

fn trial(kit: &Kit, backend: Backend, language: Language, case: Case, ready: &Arc<Availability>) -> Trial {
    let (kit, ready) = (kit.clone(), Arc::clone(ready));
    let name = format!("{}::{}::{}", backend.name(), language.name(), case.name);
    Trial::ignorable_test(name, move || match &**ready {
        Err(reason) if backend.is_required() => Err(reason.clone().into()),
        Err(reason) => Ok(Completion::ignored_with(reason)),
        Ok(()) => match check::run(&kit, backend, language, &case) {
            Ok(()) => Ok(Completion::Completed),
            Err(error) => Err(format!("{error:#}").into()),
        },
    })
}
