//! Real programs whose output in the guest must equal their native output.
//!
//! `numbers::NAME` are integers of numpy and of libraries based on it, with their values on a 64-bit system.
//! `programs::NAME` are the programs of `tests/fixtures/python/compat`; `javascript::NAME` and `lua::NAME` are those of
//! `tests/fixtures/javascript` and `lua`, with the output of Node and `lua`; `typescript::NAME` are those of
//! `tests/fixtures/typescript`, with their output when compiled by npm's `typescript` and run by Node. `absent::NAME`
//! use features of Node that the JavaScript runtime lacks. `quickjs::NAME` are QuickJS-NG's own tests, from the locked
//! crate with its sources. `pyperformance::NAME` are benchmark programs of that package, which pip fetches when the
//! tests run and whose pinned digest is checked. If something is unavailable, its tests are ignored with the reason;
//! `CODEBOX_REQUIRE=pyperformance,quickjs` makes that a failure.

mod absent;
mod benchmarks;
mod corpus;
mod numbers;
mod programs;
mod quickjs;
mod wheel;

use std::sync::{Arc, LazyLock};

use codebox_testkit::{Kit, is_required};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// Lazily created value that the trials of this target share, or the reason why it is unavailable.
type Shared<T> = Arc<LazyLock<Result<T, String>, Box<dyn FnOnce() -> Result<T, String> + Send>>>;

fn shared<T>(make: impl FnOnce() -> anyhow::Result<T> + Send + 'static) -> Shared<T> {
    Arc::new(LazyLock::new(Box::new(move || make().map_err(|error| format!("{error:#}")))))
}

/// Returns the result of a trial whose precondition is missing.
fn unavailable(name: &str, reason: &str) -> Result<Completion, Failed> {
    if is_required(name) { Err(reason.to_owned().into()) } else { Ok(Completion::ignored_with(reason)) }
}

fn completion(result: anyhow::Result<()>) -> Result<Completion, Failed> {
    result.map(|()| Completion::Completed).map_err(|error| format!("{error:#}").into())
}

fn main() -> anyhow::Result<()> {
    let args = Arguments::from_args();
    let kit = Kit::new(env!("CARGO_BIN_EXE_codebox"), env!("CARGO_TARGET_TMPDIR"));
    let kit_to_prepare = kit.clone();
    let ready = shared(move || kit_to_prepare.prepare());
    let mut trials = programs::trials(&kit, &ready)?;
    trials.extend(numbers::trials(&kit, &ready));
    trials.extend(corpus::trials(&kit, &ready)?);
    trials.extend(absent::trials(&kit, &ready)?);
    trials.extend(quickjs::trials(&kit, &ready)?);
    trials.extend(benchmarks::trials(&kit, &ready)?);
    trials.push(Trial::test("list::enough_benchmarks", || Ok(benchmarks::check_program_count()?)));
    libtest_mimic::run(&args, trials).exit()
}
