//! Hostile guests: each has to end as its header says, and leave this machine as it was.
//!
//! Trials are named `ROW::PROGRAM::VARIANT` after the programs in `tests/fixtures/python/hostile`, and a list test holds
//! that each of these has one. Around every attack stand canaries: see [`codebox_testkit::Canaries`]. What codebox
//! itself answers to an attack is never `internal_error`, and never a signal.

mod attack;
mod bounds;
mod ends;
mod files;
mod first_use;
mod hostcalls;
mod images;
mod limits;
mod plant;
mod recursion;
mod sharing;
mod tampering;
mod uniqueness;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use codebox_testkit::{Kit, hostile_dir, is_required, programs_in};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

use attack::Attack;

/// What a trial of this target does: passes, fails, or says why it cannot be.
pub enum Verdict {
    Held,
    Impossible(String),
}

fn main() -> Result<()> {
    let args = Arguments::from_args();
    let kit = Kit::new(env!("CARGO_BIN_EXE_codebox"), env!("CARGO_TARGET_TMPDIR"));
    let ready = kit.prepare().map_err(|error| format!("{error:#}"));
    let mut trials = Vec::new();
    let mut attacked = BTreeSet::new();
    for attack in attacks() {
        attacked.insert(attack.fixture);
        let kit = kit.clone();
        trials.push(trial(attack.name()?, &ready, move || attack.run(&kit)));
    }
    for (name, fixtures, run) in compound() {
        attacked.extend(fixtures);
        let kit = kit.clone();
        trials.push(trial(name.to_owned(), &ready, move || run(&kit)));
    }
    trials.push(Trial::test("list::every_fixture_has_a_trial", move || Ok(complete(&attacked)?)));
    let conclusion = libtest_mimic::run(&args, trials);
    tampering::remove_copy();
    if ready.is_ok() && !args.list {
        quiet_afterwards(&kit)?;
    }
    conclusion.exit()
}

fn attacks() -> Vec<Attack> {
    [files::attacks(), limits::attacks(), hostcalls::attacks(), ends::attacks()].into_iter().flatten().collect()
}

/// A trial that is more than one run of one program: its name, the fixtures it uses, and what it does.
pub type Compound = (&'static str, Vec<&'static str>, fn(&Kit) -> Result<Verdict>);

fn compound() -> Vec<Compound> {
    let topics = [
        bounds::compound(),
        ends::compound(),
        files::compound(),
        recursion::compound(),
        sharing::compound(),
        uniqueness::compound(),
        images::compound(),
        tampering::compound(),
        first_use::compound(),
    ];
    topics.into_iter().flatten().collect()
}

fn trial(name: String, ready: &Result<(), String>, run: impl FnOnce() -> Result<Verdict> + Send + 'static) -> Trial {
    let ready = ready.clone();
    Trial::ignorable_test(name, move || match ready {
        Err(reason) if is_required("wasm") => Err(reason.into()),
        Err(reason) => Ok(Completion::ignored_with(reason)),
        Ok(()) => match run() {
            Ok(Verdict::Held) => Ok(Completion::Completed),
            Ok(Verdict::Impossible(reason)) => Ok(Completion::ignored_with(reason)),
            Err(error) => Err(Failed::from(format!("{error:#}"))),
        },
    })
}

fn complete(attacked: &BTreeSet<&str>) -> Result<()> {
    let programs = programs_in(&hostile_dir())?;
    let forgotten: Vec<_> = programs.iter().filter(|name| !attacked.contains(name.as_str())).collect();
    ensure!(forgotten.is_empty(), "no trial attacks with {forgotten:?}");
    Ok(())
}

/// After all attacks nothing is left of them, and the next job is served at once.
fn quiet_afterwards(kit: &Kit) -> Result<()> {
    let ran = kit.run_json().args(["-c", "print(1)"]).run()?;
    ensure!(ran.report()?.stdout() == "1\n", "the next job did not run: {}", ran.stdout_text());
    ensure!(ran.wall < Duration::from_secs(5), "the next job took {:?}", ran.wall);
    let left = kit.scratch_entries();
    ensure!(left.is_empty(), "directories of ended jobs are left: {left:?}");
    Ok(())
}
