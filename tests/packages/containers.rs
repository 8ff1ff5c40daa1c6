//! Native packages in containers.

use anyhow::{Result, ensure};
use codebox_testkit::{Kit, engine_answers, is_required};
use libtest_mimic::{Completion, Failed, Trial};

use crate::index::{Index, pure, unique, wheel};

/// Name of a trial and its body for an engine.
type Case = (&'static str, fn(&Kit, &str) -> Result<()>);

const CASES: &[Case] = &[
    ("a_native_package", native),
    ("a_package_that_nobody_asked_for_is_named", unnamed),
    ("installs_the_packages_of_the_runtime_that_a_program_imports", brought_by_the_runtime),
    ("the_python_that_a_script_wants_counts_without_packages", wanted_python),
];

pub fn trials(kit: &Kit) -> Vec<Trial> {
    let each = ["docker", "podman"].into_iter().flat_map(|engine| CASES.iter().map(move |case| (engine, *case)));
    each.map(|(engine, (name, run))| {
        let kit = kit.clone();
        Trial::ignorable_test(format!("containers::{engine}::{name}"), move || {
            match engine_answers(&kit, engine) {
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
fn unnamed(kit: &Kit, engine: &str) -> Result<()> {
    let home = kit.folder()?;
    kit.home_with_engine(home.path(), engine, "")?;
    let codebox = || kit.codebox().home(home.path()).inherit_env().args(["run", "--json"]);
    let ran = codebox().args(["-c", "import requests\nrequests.get('http://host.example/')"]).run()?;
    let report = ran.report()?;
    ensure!(report.at("/provenance/isolation") == "container", "{}", ran.stdout_text());
    ensure!(report.missing() == ["the module requests"], "{:?}", report.missing());
    let ran = codebox().args(["-c", "import urllib.request\nurllib.request.urlopen('http://host.example/')"]).run()?;
    ensure!(ran.report()?.missing() == ["network hosts"], "{:?}", ran.report()?.missing());
    Ok(())
}

/// A program that imports a package that is built into the WebAssembly runtime finds it in a container too, in the same
/// version.
fn brought_by_the_runtime(kit: &Kit, engine: &str) -> Result<()> {
    let home = kit.folder()?;
    kit.home_with_engine(home.path(), engine, "")?;
    let mark = unique("brought");
    let yaml = |version: &str| pure("pyyaml", version, &[], &[("yaml.py", &format!("VALUE = '{version} {mark}'\n"))]);
    let index = Index::of([yaml("6.0.3"), yaml("6.0.2"), yaml("99.0")])?;
    let codebox = || {
        let codebox = kit.codebox().home(home.path()).inherit_env().env("UV_DEFAULT_INDEX", index.address.as_str());
        codebox.env("UV_NO_CONFIG", "1").env("NO_PROXY", "127.0.0.1").args(["run", "--json"])
    };
    let program = "import threading, yaml\nthread = threading.Thread(target=lambda: print(yaml.VALUE))\nthread.start()";
    let ran = codebox().args(["-c", program]).run()?;
    let report = ran.report()?;
    ensure!(report.stdout() == format!("6.0.3 {mark}\n"), "{}\n{}", ran.stdout_text(), ran.stderr_text());
    ensure!(report.at("/provenance/isolation") == "container", "{}", ran.stdout_text());
    let why = report.at("/provenance/reason").as_str().unwrap_or_default().to_owned();
    ensure!(why.contains("pyyaml 6.0.3"), "{why}");
    // A version that the user requests takes precedence over the runtime's.
    let ran = codebox().args(["--with", "pyyaml==99.0", "--isolation", "container", "-c", program]).run()?;
    ensure!(ran.report()?.stdout() == format!("99.0 {mark}\n"), "{}\n{}", ran.stdout_text(), ran.stderr_text());
    // A granted module of the program takes precedence over the package.
    let folder = kit.folder()?;
    std::fs::write(folder.path().join("yaml.py"), "VALUE = 'own'\n")?;
    std::fs::write(folder.path().join("main.py"), program)?;
    let own =
        codebox().folder(folder.path()).args(["--isolation", "container", "--dir", ".:/work", "main.py"]).run()?;
    ensure!(own.report()?.stdout() == "own\n", "{}\n{}", own.stdout_text(), own.stderr_text());
    // A run without a reachable index continues without the package and reports the missing module.
    let gone = Index::of([])?;
    let alone = codebox().env("UV_DEFAULT_INDEX", gone.address.as_str());
    let ran = alone.args(["--isolation", "container", "-c", "import tabulate"]).run()?;
    let report = ran.report()?;
    ensure!(report.missing() == ["the module tabulate"], "{}\n{}", ran.stdout_text(), ran.stderr_text());
    let why = report.at("/provenance/reason").as_str().unwrap_or_default();
    ensure!(why.contains("not installed: tabulate"), "{why}");
    Ok(())
}

fn wanted_python(kit: &Kit, engine: &str) -> Result<()> {
    let home = kit.folder()?;
    kit.home_with_engine(home.path(), engine, "")?;
    let job = |versions: &str, more: &[&str]| {
        let script = format!("# /// script\n# requires-python = \"{versions}\"\n# ///\nprint(1)");
        let job = kit.codebox().home(home.path()).inherit_env().args(["run", "--json"]).args(more.iter().copied());
        job.args(["-c", &script]).run()
    };
    // A Python version that WebAssembly lacks leads to a container, which must have that version too.
    for more in [&[][..], &["--isolation", "container"]] {
        let ran = job(">=3.99", more)?;
        ensure!(ran.report()?.kind() == "install_failed", "{}\n{}", ran.stdout_text(), ran.stderr_text());
        ensure!(ran.stdout_text().contains("the script requires python (>=3.99)"), "{}", ran.stdout_text());
    }
    let script = "# /// script\n# requires-python = \">=3.99\"\n# ///\nprint(1)";
    let told = kit.codebox().home(home.path()).inherit_env().args(["explain", "-c", script]).run()?;
    ensure!(told.code == Some(125), "{}", told.stdout_text());
    ensure!(told.stderr_text().contains("the script requires python (>=3.99)"), "{}", told.stderr_text());
    let ran = job("<3.15", &[])?;
    let report = ran.report()?;
    ensure!(report.stdout() == "1\n", "{}\n{}", ran.stdout_text(), ran.stderr_text());
    ensure!(report.at("/provenance/isolation") == "container", "{}", ran.stdout_text());
    Ok(())
}

fn native(kit: &Kit, engine: &str) -> Result<()> {
    let name = unique("native");
    let module = name.replace('-', "_");
    let bad = "raise SystemExit('it ran')\n";
    let tag = format!("py3-none-manylinux_2_17_{}", std::env::consts::ARCH);
    let members =
        [(format!("{module}.py"), "VALUE = 7\n"), ("json.py".to_owned(), bad), ("sitecustomize.py".to_owned(), bad)];
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
    let mut asked = 0;
    for turn in ["the first", "the second"] {
        let ran = job().run()?;
        let report = ran.report()?;
        ensure!(report.stdout() == "7 1 1\nread-only\n", "{turn}: {}\n{}", ran.stdout_text(), ran.stderr_text());
        ensure!(report.at("/provenance/isolation") == "container", "{}", ran.stdout_text());
        let why = report.at("/provenance/reason").as_str().unwrap_or_default().to_owned();
        ensure!(why.contains(&name), "{why}");
        ensure!(asked == 0 || index.seen().len() == asked, "{:?}", index.seen());
        asked = index.seen().len();
    }
    Ok(())
}
