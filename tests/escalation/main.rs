//! Escalation from WebAssembly to a container: programs whose text leads to a container, and programs that fail in
//! WebAssembly and are run again, on each engine, through the program and through the library.
//!
//! Trials are named `ENGINE::TOPIC::CASE`. Each case has a separate home with the runtimes of the shared one.
//! Afterwards, no container, mount, private directory or process of its home may remain. If an engine or a runtime is
//! unavailable, its trials are ignored with the reason; if `CODEBOX_REQUIRE` names it, they fail.

mod agreement;
mod direct;
mod ends;
#[path = "../containers/engine.rs"]
mod engine;
mod library;
mod not_rerun;
mod programs;
mod rerun;
#[path = "../containers/residue.rs"]
mod residue;
mod test_env;

use std::sync::{Arc, LazyLock};

use anyhow::Result;
use codebox_testkit::{Kit, is_full, is_required};
use libtest_mimic::{Arguments, Completion, Trial};

use engine::{Availability, Engine};
use test_env::TestEnvironment;

/// Body of a trial.
type TestBody = fn(&TestEnvironment) -> Result<()>;

/// Cases of a topic by name.
type Cases = Vec<(String, TestBody)>;

fn main() {
    let args = Arguments::from_args();
    let kit = Kit::new(env!("CARGO_BIN_EXE_codebox"), env!("CARGO_TARGET_TMPDIR"));
    let runtimes = Arc::new(runtimes(kit.clone()));
    let mut trials = Vec::new();
    for engine in Engine::ALL {
        let ready = [Arc::clone(&runtimes), Arc::new(engine.lazy_availability(kit.clone()))];
        trials.extend(
            cases()
                .into_iter()
                .filter(|(name, _)| runs(engine, name))
                .map(|(name, run)| trial(&kit, engine, name, run, ready.clone())),
        );
    }
    libtest_mimic::run(&args, trials).exit();
}

/// Determines whether both languages run in WebAssembly.
fn runtimes(kit: Kit) -> Availability {
    LazyLock::new(Box::new(move || {
        let python = kit.prepare_runtime("python");
        python.and_then(|()| kit.prepare_runtime("javascript")).map_err(|error| format!("{error:#}"))
    }))
}

fn cases() -> Cases {
    let topics =
        [rerun::cases(), direct::cases(), not_rerun::cases(), agreement::cases(), ends::cases(), library::cases()];
    topics.into_iter().flatten().collect()
}

/// Returns true if a case runs on an engine. The second engine runs one program and the library in the short form.
fn runs(engine: Engine, name: &str) -> bool {
    engine != Engine::Docker || name.starts_with("rerun::python_thread") || name.starts_with("library::") || is_full()
}

/// Creates a case of a topic.
fn case(topic: &str, name: &str, run: TestBody) -> (String, TestBody) {
    (format!("{topic}::{name}"), run)
}

fn trial(kit: &Kit, engine: Engine, name: String, run: TestBody, ready: [Arc<Availability>; 2]) -> Trial {
    let kit = kit.clone();
    Trial::ignorable_test(format!("{}::{name}", engine.name()), move || {
        for (ready, required) in ready.iter().zip([is_required("wasm"), engine.is_required()]) {
            match &***ready {
                Err(reason) if required => return Err(reason.clone().into()),
                Err(reason) => return Ok(Completion::ignored_with(reason)),
                Ok(()) => {}
            }
        }
        match run_trial(&kit, engine, run) {
            Ok(()) => Ok(Completion::Completed),
            Err(error) => Err(format!("{error:#}").into()),
        }
    })
}

fn run_trial(kit: &Kit, engine: Engine, run: TestBody) -> Result<()> {
    let test_env = TestEnvironment::new(kit, engine)?;
    let result = run(&test_env);
    let remains = test_env.check_nothing_left();
    result?;
    remains
}
