//! Tier of a program with packages: the resolution decides, not the names of the imports.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use codebox_testkit::Kit;

use crate::index::{Index, pure, unique, wheel};
use crate::{Case, run, run_successfully, without_engines};

pub const CASES: &[Case] = &[
    ("requested_import_stays_in_wasm", requested_import_stays_in_wasm),
    ("reports_import_without_package", reports_import_without_package),
    ("names_package_that_forces_container", names_package_that_forces_container),
    ("honours_requires_python", honours_requires_python),
    ("lists_packages_of_library", lists_packages_of_library),
];

/// `runtime.toml` lists exactly the packages and versions whose metadata is in the library.
fn lists_packages_of_library(kit: &Kit) -> Result<()> {
    let spec = codebox_wasm::RuntimeSpec::parse(include_str!("../../guest-runtimes/python/runtime.toml"))?;
    let folder = format!("data/runtimes/{}-{}/lib", spec.name, spec.version());
    let name = spec.library.as_ref().map(|(_, name)| name.as_str()).unwrap_or_default();
    let library_packages = codebox_packages::read_built_in_packages(&kit.home().join(folder).join(name))?;
    let library_packages: BTreeMap<String, String> =
        library_packages.into_iter().map(|package| (package.name, package.version)).collect();
    ensure!(library_packages == spec.packages, "the library has {library_packages:?}");
    Ok(())
}

/// The index has pure packages whose names are known to need sockets or native code.
fn requested_import_stays_in_wasm(kit: &Kit) -> Result<()> {
    let index = Index::of(
        ["requests", "yarl"].map(|name| pure(name, "99.0", &[], &[(&format!("{name}/__init__.py"), "VALUE = 7\n")])),
    )?;
    for name in ["requests", "yarl"] {
        let program = format!("import {name}\nprint({name}.VALUE)");
        let job = || without_engines(kit.codebox()).env("UV_DEFAULT_INDEX", index.address.as_str());
        let result = job().args(["run", "--json", "--with", name, "-c", &program]).run()?;
        let report = result.report()?;
        ensure!(report.stdout() == "7\n", "{} {}", result.stdout_text(), result.stderr_text());
        let why = report.at("/provenance/reason").as_str().unwrap_or_default();
        ensure!(why.starts_with("wasm is the lightest"), "{why}");
        let explanation = job().args(["explain", "--json", "--with", name, "-c", &program]).run()?.report()?;
        ensure!(
            explanation.at("/isolation") == "wasm" && explanation.at("/needs").as_array().is_some_and(Vec::is_empty),
            "{}",
            explanation.json()
        );
        ensure!(explanation.at("/packages/0") == &format!("packages: {name} 99.0"), "{}", explanation.json());
    }
    Ok(())
}

fn reports_import_without_package(kit: &Kit) -> Result<()> {
    let index = Index::of([pure("requests", "99.0", &[], &[("requests.py", "")])])?;
    let explain = without_engines(kit.codebox()).env("UV_DEFAULT_INDEX", index.address.as_str());
    let explanation = explain.args(["explain", "-c", "import requests"]).run()?;
    ensure!(explanation.stdout_text().contains("use --with requests"), "{}", explanation.stdout_text());
    let result = run(kit, &index).args(["-c", "import requests"]).run()?;
    ensure!(result.report()?.kind() == "guest_error", "{}", result.stdout_text());
    ensure!(result.stdout_text().contains("--with requests"), "{}", result.stdout_text());
    // A dependency of a requested package counts as requested.
    let name = unique("brings");
    let both = Index::of([
        pure(&name, "1", &["requests"], &[]),
        pure("requests", "99.0", &[], &[("requests/__init__.py", "VALUE = 7\n")]),
    ])?;
    let job = run(kit, &both).args(["--with", &name, "-c", "import requests\nprint(requests.VALUE)"]);
    ensure!(run_successfully(job)? == "7\n");
    ensure!(index.requests().is_empty(), "{:?}", index.requests());
    Ok(())
}

fn honours_requires_python(kit: &Kit) -> Result<()> {
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
    let result = job(">=3.8")?;
    ensure!(result.report()?.stdout() == "1\n", "{} {}", result.stdout_text(), result.stderr_text());
    ensure!(result.stderr_text().contains("[tool.uv] is ignored"), "{}", result.stderr_text());
    let result = job(">=99")?;
    ensure!(result.report()?.kind() == "engine_unavailable", "{}", result.stdout_text());
    ensure!(result.stdout_text().contains("python (>=99)"), "{}", result.stdout_text());
    // A lock that no run could use is not written.
    let folder = kit.folder()?;
    std::fs::write(folder.path().join("main.py"), script(">=99"))?;
    let lock = without_engines(kit.codebox()).env("UV_DEFAULT_INDEX", index.address.as_str()).folder(folder.path());
    let lock_result = lock.args(["lock", "main.py", "--with", "six"]).run()?;
    ensure!(
        lock_result.code == Some(125) && lock_result.stderr_text().contains("python (>=99)"),
        "{}",
        lock_result.stderr_text()
    );
    ensure!(!folder.path().join("main.py.lock").exists());
    ensure!(index.requests().is_empty(), "{:?}", index.requests());
    Ok(())
}

fn names_package_that_forces_container(kit: &Kit) -> Result<()> {
    let (name, need) = (unique("requires"), unique("native"));
    let tag = format!("cp311-cp311-manylinux_2_17_{}", std::env::consts::ARCH);
    let index = Index::of([pure(&name, "1", &[&need], &[]), wheel(&need, "1", &tag, &[], &[])])?;
    let job = || without_engines(kit.codebox()).env("UV_DEFAULT_INDEX", index.address.as_str());
    let explanation = job().args(["explain", "--with", &name, "-c", "print(1)"]).run()?;
    ensure!(
        explanation.stdout_text().contains(&format!("packages that require a container: {need}")),
        "{}",
        explanation.stdout_text()
    );
    let result = job().args(["run", "--json", "--with", &name, "-c", "print(1)"]).run()?;
    ensure!(
        result.report()?.kind() == "engine_unavailable" && result.stdout_text().contains(&need),
        "{}",
        result.stdout_text()
    );
    Ok(())
}
