//! npm packages in the guest.
//!
//! `loader::NAME` are small packages, written here, for Node's module resolution: each program prints in the guest what
//! this machine's Node prints with the same files. `real::NAME` are the most used pure packages, from the user's own
//! registry, each with a program of `tests/fixtures/npm`; `table::written` compares docs/packages-npm.md with the
//! results, and writes it if `CODEBOX_WRITE` names `packages-npm`. If Node or the registry is missing, the tests are
//! ignored with the reason; `CODEBOX_REQUIRE=node,npm` makes that a failure. `command::NAME` are runs of the command
//! line with a registry on the loopback interface. `typescript::expectations` compares the expectations of
//! `tests/fixtures/typescript` with the results of npm's TypeScript compiler and Node.

mod command;
mod guest_runner;
mod loader;
mod real;
mod registry;
mod table;
mod typescript;

use std::sync::{Arc, LazyLock};

use codebox_testkit::{Kit, is_required};
use guest_runner::GuestRunner;
use libtest_mimic::{Arguments, Completion, Failed};

/// Lazily created value that the trials share, or the reason why it is unavailable.
type Shared<T> = Arc<LazyLock<Result<T, String>, Box<dyn FnOnce() -> Result<T, String> + Send>>>;

fn shared<T>(make: impl FnOnce() -> anyhow::Result<T> + Send + 'static) -> Shared<T> {
    Arc::new(LazyLock::new(Box::new(move || make().map_err(|error| format!("{error:#}")))))
}

/// Returns the shared value, or the reason why it is unavailable as an error.
fn shared_value<T>(shared: &Shared<T>) -> anyhow::Result<&T> {
    (**shared).as_ref().map_err(|reason| anyhow::anyhow!("{reason}"))
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
    let mut trials = command::trials(&kit);
    trials.extend(typescript::trials(&kit));
    let guest_runner = shared(move || GuestRunner::new(&kit));
    trials.extend(loader::trials(&guest_runner)?);
    trials.extend(real::trials(&guest_runner)?);
    libtest_mimic::run(&args, trials).exit()
}
