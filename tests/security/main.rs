//! Hostile guests: each must end as its header declares and leave this machine unchanged.
//!
//! Trials are named `LANGUAGE::ROW::PROGRAM::VARIANT` after the programs in `tests/fixtures/LANGUAGE/hostile`. One list
//! of attacks runs in every language that has the program, with the same checks. Canaries surround every attack: see
//! [`codebox_testkit::Canaries`]. codebox's own response to an attack is never `internal_error` and never a signal.

mod attack;
mod bounds;
mod ends;
mod files;
mod first_use;
mod hostcalls;
mod images;
mod limits;
mod list;
mod plant;
mod recursion;
mod scenario;
mod sharing;
mod tampering;
mod texts;
mod uniqueness;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use codebox_testkit::{Guest, Kit, is_required};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

use attack::Attack;
use scenario::Scenario;

/// Result of a passed or impossible trial, the latter with its reason.
pub enum Verdict {
    Passed,
    Skipped(String),
}

fn main() -> Result<()> {
    let args = Arguments::from_args();
    let kit = Kit::new(env!("CARGO_BIN_EXE_codebox"), env!("CARGO_TARGET_TMPDIR"));
    let ready = kit.prepare().map_err(|error| format!("{error:#}"));
    let mut attacked = list::AttackedPrograms::default();
    let mut trials = Vec::new();
    for attack in attacks().into_iter().map(Arc::new) {
        for guest in attack.guests() {
            attacked.insert((guest, attack.fixture.to_owned()));
            let (attack, kit) = (Arc::clone(&attack), kit.clone());
            trials.push(trial(attack.name(guest)?, &ready, move || attack.run(&kit, guest)));
        }
    }
    for scenario in scenario() {
        for guest in scenario.guests() {
            attacked.extend(scenario.fixtures().iter().map(|fixture| (guest, (*fixture).to_owned())));
            let (run, kit) = (scenario.run(), kit.clone());
            trials.push(trial(scenario.name(guest), &ready, move || run(&kit, guest)));
        }
    }
    trials.extend(list::trials(attacked));
    let conclusion = libtest_mimic::run(&args, trials);
    tampering::remove_copy();
    // Runs after all attacks. As a test, it is counted, and its failure is reported like any other.
    let clean_state = vec![trial("clean_state".to_owned(), &ready, move || check_clean_state(&kit))];
    let last = libtest_mimic::run(&args, clean_state);
    conclusion.exit_if_failed();
    last.exit()
}

fn attacks() -> Vec<Attack> {
    [files::attacks(), limits::attacks(), hostcalls::attacks(), ends::attacks()].into_iter().flatten().collect()
}

fn scenario() -> Vec<Scenario> {
    let topics = [
        bounds::trials(),
        ends::trials(),
        files::trials(),
        recursion::trials(),
        sharing::trials(),
        uniqueness::trials(),
        images::trials(),
        tampering::trials(),
        texts::trials(),
        first_use::trials(),
    ];
    topics.into_iter().flatten().collect()
}

fn trial(name: String, ready: &Result<(), String>, run: impl FnOnce() -> Result<Verdict> + Send + 'static) -> Trial {
    let ready = ready.clone();
    Trial::ignorable_test(name, move || match ready {
        Err(reason) if is_required("wasm") => Err(reason.into()),
        Err(reason) => Ok(Completion::ignored_with(reason)),
        Ok(()) => match run() {
            Ok(Verdict::Passed) => Ok(Completion::Completed),
            Ok(Verdict::Skipped(reason)) => Ok(Completion::ignored_with(reason)),
            Err(error) => Err(Failed::from(format!("{error:#}"))),
        },
    })
}

/// Maximum time for the removal of what killed processes left behind. A directory whose process was killed before it held
/// its lock is removed when it is a minute old.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(90);

/// After all attacks, the next jobs run and no directories of ended jobs are left.
fn check_clean_state(kit: &Kit) -> Result<Verdict> {
    // An idle worker has a directory.
    kit.codebox().args(["host", "stop"]).run()?;
    let start = Instant::now();
    loop {
        for guest in Guest::ALL {
            let result = kit.run_json().args(guest.printing(1)).run()?;
            ensure!(result.report()?.stdout() == "1\n", "the next job did not run: {}", result.stdout_text());
        }
        let remains = kit.scratch_entries();
        if remains.is_empty() {
            return Ok(Verdict::Passed);
        }
        ensure!(start.elapsed() < REMOVAL_TIMEOUT, "directories of ended jobs are left: {remains:?}");
        thread::sleep(Duration::from_secs(1));
    }
}
