//! Tier of a program with packages: the resolution decides, not the names of the imports.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use codebox_testkit::Kit;

use crate::index::{Index, pure, unique, wheel};
use crate::{Case, printed, run, without_engines};

pub const CASES: &[Case] = &[
    ("an_import_of_what_was_asked_for_stays_in_wasm", asked_for),
    ("an_import_of_what_was_not_is_told_and_not_installed", not_asked_for),
    ("the_package_that_forces_a_container_is_named", forced),
    ("the_python_that_a_script_wants_counts_without_packages", wanted_python),
    ("lists_the_packages_that_the_library_brings", listed),
];

/// `runtime.toml` lists exactly the packages and versions whose metadata is in the library.
fn listed(kit: &Kit) -> Result<()> {
    let spec = codebox_wasm::RuntimeSpec::parse(include_str!("../../guest-runtimes/python/runtime.toml"))?;
    let folder = format!("data/runtimes/{}-{}/lib", spec.name, spec.version());
    let name = spec.library.as_ref().map(|(_, name)| name.as_str()).unwrap_or_default();
    let brought = codebox_packages::built_in_of(&kit.home().join(folder).join(name))?;
    let brought: BTreeMap<String, String> = brought.into_iter().map(|one| (one.name, one.version)).collect();
    ensure!(brought == spec.packages, "the library has {brought:?}");
    Ok(())
}

/// The index has pure packages whose names are known to need sockets or native code.
fn asked_for(kit: &Kit) -> Result<()> {
    let index = Index::of(
        ["requests", "yarl"].map(|name| pure(name, "99.0", &[], &[(&format!("{name}/__init__.py"), "VALUE = 7\n")])),
    )?;
    for name in ["requests", "yarl"] {
        let program = format!("import {name}\nprint({name}.VALUE)");
        let job = || without_engines(kit.codebox()).env("UV_DEFAULT_INDEX", index.address.as_str());
        let ran = job().args(["run", "--json", "--with", name, "-c", &program]).run()?;
        let report = ran.report()?;
        ensure!(report.stdout() == "7\n", "{} {}", ran.stdout_text(), ran.stderr_text());
        let why = report.at("/provenance/reason").as_str().unwrap_or_default();
        ensure!(why.starts_with("wasm is the lightest"), "{why}");
        let told = job().args(["explain", "--json", "--with", name, "-c", &program]).run()?.report()?;
        ensure!(
            told.at("/isolation") == "wasm" && told.at("/needs").as_array().is_some_and(Vec::is_empty),
            "{}",
            told.json()
        );
        ensure!(told.at("/packages/0") == &format!("packages: {name} 99.0"), "{}", told.json());
    }
    Ok(())
}

fn not_asked_for(kit: &Kit) -> Result<()> {
    let index = Index::of([pure("requests", "99.0", &[], &[("requests.py", "")])])?;
    let explain = without_engines(kit.codebox()).env("UV_DEFAULT_INDEX", index.address.as_str());
    let told = explain.args(["explain", "-c", "import requests"]).run()?;
    ensure!(told.stdout_text().contains("use --with requests"), "{}", told.stdout_text());
    let ran = run(kit, &index).args(["-c", "import requests"]).run()?;
    ensure!(ran.report()?.kind() == "guest_error", "{}", ran.stdout_text());
    ensure!(ran.stdout_text().contains("--with requests"), "{}", ran.stdout_text());
    // A dependency of a requested package counts as requested.
    let name = unique("brings");
    let both = Index::of([
        pure(&name, "1", &["requests"], &[]),
        pure("requests", "99.0", &[], &[("requests/__init__.py", "VALUE = 7\n")]),
    ])?;
    let job = run(kit, &both).args(["--with", &name, "-c", "import requests\nprint(requests.VALUE)"]);
    ensure!(printed(job)? == "7\n");
    ensure!(index.seen().is_empty(), "{:?}", index.seen());
    Ok(())
}

fn wanted_python(kit: &Kit) -> Result<()> {
    let script = |versions: &str| {
        format!(
            "# /// script\n# requires-python = \"{versions}\"\n# [tool.uv]\n# exclude-newer = \"2020-01-01\"\n# ///\nprint(1)"
        )
    };
    let index = Index::of([])?;
    let job = |versions: &str| {
        let job = without_engines(kit.codebox()).env("UV_DEFAULT_INDEX", index.address.as_str());
        job.args(["run", "--json", "-c", &script(versions)]).run()
    };
    let ran = job(">=3.8")?;
    ensure!(ran.report()?.stdout() == "1\n", "{} {}", ran.stdout_text(), ran.stderr_text());
    ensure!(ran.stderr_text().contains("[tool.uv] is ignored"), "{}", ran.stderr_text());
    let ran = job(">=99")?;
    ensure!(ran.report()?.kind() == "engine_unavailable", "{}", ran.stdout_text());
    ensure!(ran.stdout_text().contains("python (>=99)"), "{}", ran.stdout_text());
    // A lock that no run could use is not written.
    let folder = kit.folder()?;
    std::fs::write(folder.path().join("main.py"), script(">=99"))?;
    let lock = without_engines(kit.codebox()).env("UV_DEFAULT_INDEX", index.address.as_str()).folder(folder.path());
    let made = lock.args(["lock", "main.py", "--with", "six"]).run()?;
    ensure!(made.code == Some(125) && made.stderr_text().contains("python (>=99)"), "{}", made.stderr_text());
    ensure!(!folder.path().join("main.py.lock").exists());
    ensure!(index.seen().is_empty(), "{:?}", index.seen());
    Ok(())
}

fn forced(kit: &Kit) -> Result<()> {
    let (name, need) = (unique("asks"), unique("native"));
    let tag = format!("cp311-cp311-manylinux_2_17_{}", std::env::consts::ARCH);
    let index = Index::of([pure(&name, "1", &[&need], &[]), wheel(&need, "1", &tag, &[], &[])])?;
    let job = || without_engines(kit.codebox()).env("UV_DEFAULT_INDEX", index.address.as_str());
    let told = job().args(["explain", "--with", &name, "-c", "print(1)"]).run()?;
    ensure!(
        told.stdout_text().contains(&format!("packages that require a container: {need}")),
        "{}",
        told.stdout_text()
    );
    let ran = job().args(["run", "--json", "--with", &name, "-c", "print(1)"]).run()?;
    ensure!(ran.report()?.kind() == "engine_unavailable" && ran.stdout_text().contains(&need), "{}", ran.stdout_text());
    Ok(())
}
