//! Packages of Python programs, from well-behaved and hostile indexes on the loopback interface.

mod automatic_images;
mod building;
mod containers;
mod hostile;
mod index;
mod locked;
mod names;
mod offline;
mod projects;
mod pure;
mod real;
mod sdist_source;
mod tiers;

use anyhow::{Result, ensure};
use codebox_testkit::{Codebox, Kit, ProcessResult, is_required};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

use index::Index;

/// Name of a trial and its body.
pub type Case = (&'static str, fn(&Kit) -> Result<()>);

fn main() -> Result<()> {
    let args = Arguments::from_args();
    let kit = Kit::new(env!("CARGO_BIN_EXE_codebox"), env!("CARGO_TARGET_TMPDIR"));
    let ready = kit.prepare().map_err(|error| format!("{error:#}"));
    let topics = [
        ("automatic_images", automatic_images::CASES),
        ("pure", pure::CASES),
        ("names", names::CASES),
        ("hostile", hostile::CASES),
        ("locked", locked::CASES),
        ("tiers", tiers::CASES),
        ("offline", offline::CASES),
        ("projects", projects::CASES),
    ];
    let mut trials = Vec::new();
    for (topic, cases) in topics {
        for (name, run) in cases {
            let (kit, ready, run) = (kit.clone(), ready.clone(), *run);
            trials.push(Trial::ignorable_test(format!("{topic}::{name}"), move || match ready {
                Err(reason) if is_required("wasm") => Err(reason.into()),
                Err(reason) => Ok(Completion::ignored_with(reason)),
                Ok(()) => run(&kit).map(|()| Completion::Completed).map_err(|e| Failed::from(format!("{e:#}"))),
            }));
        }
    }
    trials.extend(containers::trials(&kit));
    trials.extend(building::trials(&kit, &ready));
    trials.extend(real::trials(&kit, &ready));
    libtest_mimic::run(&args, trials).exit()
}

/// Returns a run with this index and no other, and without container engines.
pub fn run(kit: &Kit, index: &Index) -> Codebox {
    without_engines(kit.run_json().env("UV_DEFAULT_INDEX", index.address.as_str()))
}

pub fn without_engines(codebox: Codebox) -> Codebox {
    codebox
        .env("UV_NO_CONFIG", "1")
        .env("NO_PROXY", "127.0.0.1")
        .env("DOCKER_HOST", "unix:///no/docker.sock")
        .env("CONTAINER_HOST", "unix:///no/podman.sock")
}

/// Runs a program that must succeed and returns its output.
pub fn run_successfully(codebox: Codebox) -> Result<String> {
    let result = codebox.run()?;
    let report = result.report()?;
    ensure!(report.kind() == "ok", "{}\n{}", result.stdout_text(), result.stderr_text());
    Ok(report.stdout().to_owned())
}

/// Runs a program that must fail with this kind and returns the report's text.
pub fn run_expecting_failure(codebox: Codebox, kind: &str) -> Result<String> {
    let result: ProcessResult = codebox.run()?;
    ensure!(!result.timed_out, "timed out");
    let output = result.stdout_text();
    ensure!(result.report()?.kind() == kind, "not {kind}: {output}\n{}", result.stderr_text());
    Ok(output)
}
