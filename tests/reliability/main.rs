//! Many jobs in one process, without losses, leaks, shared state or remains.
//!
//! The short form runs with every change; `CODEBOX_SOAK=1` selects the long one. The trials count resources of this
//! process, so they run one after another, in one thread. Their names start with the language.

mod aborting;
mod cancel;
mod code_parts;
mod deadlines;
mod flood;
mod leaks;
mod marker_programs;
mod memory;
mod residue;
mod support;
mod texts;
mod unique;

use std::process::{Command, ExitCode};
use std::sync::{Arc, LazyLock};

use anyhow::{Result, ensure};
use codebox::Workbench;
use codebox_testkit::{Guest, Kit, Soak, is_required, soak};
use libtest_mimic::{Arguments, Completion, Trial};

/// Body of a trial for one language, over this process's only runner.
type LanguageTest = fn(&Workbench, &Kit, Guest) -> Result<()>;

/// Body of any other trial.
type OtherTest = fn(&Workbench, &Kit) -> Result<()>;

/// Body of a trial with its language bound.
type Body = Box<dyn Fn(&Workbench, &Kit) -> Result<()> + Send>;

/// Trials that run in every language.
const LANGUAGE_TRIALS: &[(&str, LanguageTest)] = &[
    ("A1::abort_spares_others", aborting::spares_others),
    ("L1::consecutive_jobs", leaks::consecutive),
    ("L2::cancelled_by_dropping", cancel::by_dropping),
    ("L2::computes_beside_other_tasks", cancel::beside_other_tasks),
    ("L2::cancelled_by_token", cancel::by_token),
    ("L7::deadlines_hold", deadlines::deadlines_hold),
    ("L8::output_flood", flood::is_bounded),
    ("L9::guests_exhausting_memory", memory::exhausts_memory),
    ("L17::random_values_are_unique", unique::random_values_are_unique),
    ("S7::planted_bytes_are_cleared", residue::planted_bytes_are_cleared),
    ("S7::cleared_after_every_end", residue::cleared_after_every_end),
];

/// Trials that compare resets with the image only in the long form, because they have thousands of jobs.
const MANY_JOBS: &[&str] =
    &["consecutive_jobs", "planted_bytes_are_cleared", "random_values_are_unique", "numpy_random_values_are_unique"];

/// Other trials; their names include the language.
const OTHER_TRIALS: &[(&str, OtherTest)] = &[
    ("typescript::L9::hostile_texts_beside_others", texts::beside_others),
    ("python::L17::numpy_random_values_are_unique", unique::numpy_random_values_are_unique),
    ("alternating::L1::consecutive_jobs", leaks::alternating),
    ("python::code_parts::load_in_mid_program", code_parts::load_in_mid_program),
    ("python::code_parts::every_extension_module", code_parts::every_extension_module),
    ("python::code_parts::limits_hold_in_later_part", code_parts::limits_hold_in_later_part),
];

/// glibc's variable for the number of allocator arenas.
const ARENA_VARIABLE: &str = "MALLOC_ARENA_MAX";

/// glibc's variable for its settings, and the one that unmaps the stacks of threads that have ended: it would keep up to 40 MB of them, more
/// after a moment with many threads.
const STACK_CACHE: (&str, &str) = ("GLIBC_TUNABLES", "glibc.pthread.stack_cache_size=0");

/// Runs this program again with a fixed number of allocator arenas, and without stacks of ended threads.
///
/// The allocator gives short-lived threads up to eight arenas per processor, with two mappings each, at unpredictable
/// times. With a fixed number, an additional mapping after many jobs is a leak.
fn with_fixed_arenas() -> ExitCode {
    let rerun = std::env::current_exe().and_then(|exe| {
        Command::new(exe)
            .args(std::env::args_os().skip(1))
            .env(ARENA_VARIABLE, "2")
            .env(STACK_CACHE.0, STACK_CACHE.1)
            .status()
    });
    match rerun {
        Ok(status) => status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from),
        Err(error) => {
            eprintln!("cannot start again: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a trial and, if `verify` is set, compares every memory region that is reset meanwhile with its image.
fn verified(runner: &Workbench, verify: bool, trial: impl FnOnce() -> Result<()>) -> Result<()> {
    runner.backend().verify_resets(verify);
    trial()?;
    let checks = runner.backend().reset_checks();
    ensure!(
        checks.failed == 0,
        "{} of {} resets left memory that differs from the image",
        checks.failed,
        checks.verified
    );
    Ok(())
}

fn main() -> ExitCode {
    if std::env::var_os(ARENA_VARIABLE).is_none() {
        return with_fixed_arenas();
    }
    let mut args = Arguments::from_args();
    args.test_threads = Some(1);
    let kit = Kit::new(env!("CARGO_BIN_EXE_codebox"), env!("CARGO_TARGET_TMPDIR"));
    let kit_to_prepare = kit.clone();
    let runner = Arc::new(LazyLock::new(move || {
        let made = kit_to_prepare.prepare().and_then(|()| Ok(codebox::workbench(kit_to_prepare.home())?));
        made.map_err(|error| format!("{error:#}"))
    }));
    let trial = |name: String, run: Body| {
        let (runner, kit) = (Arc::clone(&runner), kit.clone());
        let verify = soak() == Soak::Long || !MANY_JOBS.iter().any(|suffix| name.ends_with(suffix));
        Trial::ignorable_test(name, move || match &**runner {
            Err(reason) if is_required("wasm") => Err(reason.clone().into()),
            Err(reason) => Ok(Completion::ignored_with(reason)),
            Ok(runner) => match verified(runner, verify, || run(runner, &kit)) {
                Ok(()) => Ok(Completion::Completed),
                Err(error) => Err(format!("{error:#}").into()),
            },
        })
    };
    let mut trials = Vec::new();
    for guest in Guest::ALL {
        for (name, run) in LANGUAGE_TRIALS {
            let run = move |runner: &Workbench, kit: &Kit| run(runner, kit, guest);
            trials.push(trial(format!("{}::{name}", guest.name()), Box::new(run)));
        }
    }
    trials.extend(OTHER_TRIALS.iter().map(|(name, run)| trial((*name).to_owned(), Box::new(run))));
    libtest_mimic::run(&args, trials).exit_code()
}
