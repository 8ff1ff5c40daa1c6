//! Native packages in containers.

use anyhow::{Result, ensure};
use codebox_testkit::{Kit, check_engine, is_required};
use libtest_mimic::{Completion, Failed, Trial};

use crate::index::{Index, pure, unique, wheel};

/// Name of a trial and its body for an engine.
type Case = (&'static str, fn(&Kit, &str) -> Result<()>);

const CASES: &[Case] = &[
    ("installs_native_package", installs_native_package),
    ("names_missing_package", names_missing_package),
    ("installs_imported_runtime_packages", installs_imported_runtime_packages),
    ("honours_requires_python", honours_requires_python),
];

pub fn trials(kit: &Kit) -> Vec<Trial> {
    let each = ["docker", "podman"].into_iter().flat_map(|engine| CASES.iter().map(move |case| (engine, *case)));
    each.map(|(engine, (name, run))| {
        let kit = kit.clone();
        Trial::ignorable_test(format!("containers::{engine}::{name}"), move || {
            match check_engine(&kit, engine) {
                Err(reason) if is_required(engine) => return Err(format!("{reason:#}").into()),
                Err(reason) => return Ok(Completion::ignored_with(format!("{reason:#}"))),
                Ok(()) => {}
            }
            run(&kit, engine).map(|()| Completion::Completed).map_err(|e| Failed::from(format!("{e:#}")))
        })
    })
    .collect()
}

/// A missing client package is reported as a missing package, not as a missing host grant.
fn names_missing_package(kit: &Kit, engine: &str) -> Result<()> {
    let home = kit.folder()?;
    kit.home_with_engine(home.path(), engine, "")?;
    let codebox = || kit.codebox().home(home.path()).inherit_env().args(["run", "--json"]);
    let result = codebox().args(["-c", "import requests\nrequests.get('http://host.example/')"]).run()?;
    let report = result.report()?;
    ensure!(report.at("/provenance/isolation") == "container", "{}", result.stdout_text());
    ensure!(report.missing() == ["the module requests"], "{:?}", report.missing());
    // A client of the standard library does not need a container, which has no network either.
    let client = ["-c", "import urllib.request\nurllib.request.urlopen('http://host.example/')"];
    for (isolation, missing) in [("auto", "access to host.example"), ("container", "network hosts")] {
        let report = codebox().args(["--isolation", isolation]).args(client).run()?.report()?;
        ensure!(report.missing() == [missing], "{isolation}: {:?}", report.missing());
    }
    Ok(())
}

/// A program that imports a package that is built into the WebAssembly runtime finds it in a container too, in the same
/// version.
fn installs_imported_runtime_packages(kit: &Kit, engine: &str) -> Result<()> {
    let home = kit.folder()?;
    kit.home_with_engine(home.path(), engine, "")?;
    let marker = unique("brought");
    let yaml = |version: &str| pure("pyyaml", version, &[], &[("yaml.py", &format!("VALUE = '{version} {marker}'\n"))]);
    let index = Index::of([yaml("6.0.3"), yaml("6.0.2"), yaml("99.0")])?;
    let codebox = || {
        let codebox = kit.codebox().home(home.path()).inherit_env().env("UV_DEFAULT_INDEX", index.address.as_str());
        codebox.env("UV_NO_CONFIG", "1").env("NO_PROXY", "127.0.0.1").args(["run", "--json"])
    };
    let program = "import threading, yaml\nthread = threading.Thread(target=lambda: print(yaml.VALUE))\nthread.start()";
    let result = codebox().args(["-c", program]).run()?;
    let report = result.report()?;
    ensure!(report.stdout() == format!("6.0.3 {marker}\n"), "{}\n{}", result.stdout_text(), result.stderr_text());
    ensure!(report.at("/provenance/isolation") == "container", "{}", result.stdout_text());
    let why = report.at("/provenance/reason").as_str().unwrap_or_default().to_owned();
    ensure!(why.contains("pyyaml 6.0.3"), "{why}");
    // A version that the user requests takes precedence over the runtime's.
    let result = codebox().args(["--with", "pyyaml==99.0", "--isolation", "container", "-c", program]).run()?;
    ensure!(
        result.report()?.stdout() == format!("99.0 {marker}\n"),
        "{}\n{}",
        result.stdout_text(),
        result.stderr_text()
    );
    // A granted module of the program takes precedence over the package.
    let folder = kit.folder()?;
    std::fs::write(folder.path().join("yaml.py"), "VALUE = 'own'\n")?;
    std::fs::write(folder.path().join("main.py"), program)?;
    let own =
        codebox().folder(folder.path()).args(["--isolation", "container", "--dir", ".:/work", "main.py"]).run()?;
    ensure!(own.report()?.stdout() == "own\n", "{}\n{}", own.stdout_text(), own.stderr_text());
    // A run without a reachable index continues without the package and reports the missing module.
    let empty_index = Index::of([])?;
    let run_without_index = codebox().env("UV_DEFAULT_INDEX", empty_index.address.as_str());
    let result = run_without_index.args(["--isolation", "container", "-c", "import tabulate"]).run()?;
    let report = result.report()?;
    ensure!(report.missing() == ["the module tabulate"], "{}\n{}", result.stdout_text(), result.stderr_text());
    let why = report.at("/provenance/reason").as_str().unwrap_or_default();
    ensure!(why.contains("not installed: tabulate"), "{why}");
    Ok(())
}

fn honours_requires_python(kit: &Kit, engine: &str) -> Result<()> {
    let home = kit.folder()?;
    kit.home_with_engine(home.path(), engine, "")?;
    let job = |versions: &str, more: &[&str]| {
        let script = format!("# /// script\n# requires-python = \"{versions}\"\n# ///\nprint(1)");
        let job = kit.codebox().home(home.path()).inherit_env().args(["run", "--json"]).args(more.iter().copied());
        job.args(["-c", &script]).run()
    };
    // A Python version that WebAssembly lacks leads to a container, which must have that version too.
    for more in [&[][..], &["--isolation", "container"]] {
        let result = job(">=3.99", more)?;
        ensure!(result.report()?.kind() == "install_failed", "{}\n{}", result.stdout_text(), result.stderr_text());
        ensure!(result.stdout_text().contains("the script requires python (>=3.99)"), "{}", result.stdout_text());
    }
    let script = "# /// script\n# requires-python = \">=3.99\"\n# ///\nprint(1)";
    let explanation = kit.codebox().home(home.path()).inherit_env().args(["explain", "-c", script]).run()?;
    ensure!(explanation.code == Some(125), "{}", explanation.stdout_text());
    ensure!(explanation.stderr_text().contains("the script requires python (>=3.99)"), "{}", explanation.stderr_text());
    let result = job("<3.15", &[])?;
    let report = result.report()?;
    ensure!(report.stdout() == "1\n", "{}\n{}", result.stdout_text(), result.stderr_text());
    ensure!(report.at("/provenance/isolation") == "container", "{}", result.stdout_text());
    Ok(())
}

fn installs_native_package(kit: &Kit, engine: &str) -> Result<()> {
    let name = unique("native");
    let module = name.replace('-', "_");
    let shadowing_module = "raise SystemExit('it ran')\n";
    let tag = format!("py3-none-manylinux_2_17_{}", std::env::consts::ARCH);
    let members = [
        (format!("{module}.py"), "VALUE = 7\n"),
        ("json.py".to_owned(), shadowing_module),
        ("sitecustomize.py".to_owned(), shadowing_module),
    ];
    let members: Vec<(&str, &str)> = members.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let index = Index::of([wheel(&name, "1", &tag, &[], &members)])?;
    let program = format!(
        "import json, importlib.metadata as m, {module}\nprint({module}.VALUE, json.dumps(1), m.version('{name}'))\n\
         import os\nfile = {module}.__file__\nplace = os.path.dirname(file)\n\
         for act in (lambda: open(file, 'w'), lambda: os.remove(file), lambda: os.rename(file, place + '/x.py'),\n\
         \x20           lambda: open(place + '/more.py', 'w'), lambda: os.symlink('/etc', place + '/l'),\n\
         \x20           lambda: os.chmod(file, 0o777), lambda: os.truncate(file, 0), lambda: os.mkdir(place + '/d'),\n\
         \x20           lambda: os.rename(place, place + '-old'), lambda: os.link(file, '/work/x')):\n\
         \x20   try:\n        act()\n    except OSError:\n        continue\n    print('changed')\nprint('read-only')"
    );
    let home = kit.folder()?;
    kit.home_with_engine(home.path(), engine, "")?;
    let job = || {
        let job = kit
            .codebox()
            .home(home.path())
            .args(["run", "--json"])
            .inherit_env()
            .env("UV_DEFAULT_INDEX", index.address.as_str())
            .env("UV_NO_CONFIG", "1");
        job.env("NO_PROXY", "127.0.0.1").args(["--with", &name, "-c", &program])
    };
    let mut request_count = 0;
    for run_name in ["the first", "the second"] {
        let result = job().run()?;
        let report = result.report()?;
        ensure!(
            report.stdout() == "7 1 1\nread-only\n",
            "{run_name}: {}\n{}",
            result.stdout_text(),
            result.stderr_text()
        );
        ensure!(report.at("/provenance/isolation") == "container", "{}", result.stdout_text());
        let why = report.at("/provenance/reason").as_str().unwrap_or_default().to_owned();
        ensure!(why.contains(&name), "{why}");
        ensure!(request_count == 0 || index.requests().len() == request_count, "{:?}", index.requests());
        request_count = index.requests().len();
    }
    Ok(())
}
