//! One list of cases, run by every backend: what a program may rely on, whichever tier it runs in.
//!
//! Trials are named `BACKEND::TOPIC::CASE`. A backend that this machine lacks has its trials ignored with the reason;
//! named in `CODEBOX_REQUIRE`, its absence is a failure.

mod backend;
mod case;
mod cases;
mod check;

use std::sync::Arc;

use codebox_testkit::Kit;
use libtest_mimic::{Arguments, Completion, Trial};

use backend::Backend;

fn main() {
    let args = Arguments::from_args();
    let kit = Kit::new(env!("CARGO_BIN_EXE_codebox"), env!("CARGO_TARGET_TMPDIR"));
    let mut trials = Vec::new();
    for backend in Backend::ALL {
        let ready = Arc::new(backend.lazily_ready(kit.clone()));
        for case in cases::all() {
            let (kit, ready) = (kit.clone(), Arc::clone(&ready));
            let name = format!("{}::{}", backend.name(), case.name);
            trials.push(Trial::ignorable_test(name, move || match &**ready {
                Err(reason) if backend.is_required() => Err(reason.clone().into()),
                Err(reason) => Ok(Completion::ignored_with(reason)),
                Ok(()) => match check::run(&kit, backend, &case) {
                    Ok(()) => Ok(Completion::Completed),
                    Err(error) => Err(format!("{error:#}").into()),
                },
            }));
        }
    }
    libtest_mimic::run(&args, trials).exit();
}
