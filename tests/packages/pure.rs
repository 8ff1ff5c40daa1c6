//! Pure packages in WebAssembly.

use anyhow::{Result, ensure};
use codebox_testkit::Kit;

use crate::index::{Behaviour, Index, pure, unique};
use crate::{Case, run, run_expecting_failure, run_successfully, without_engines};

pub const CASES: &[Case] = &[
    ("installs_package_and_requirements", installs_package_and_requirements),
    ("library_installs_packages", library_installs_packages),
    ("second_run_sends_no_requests", second_run_sends_no_requests),
    ("uses_built_in_packages", uses_built_in_packages),
    ("reads_requirements_file", reads_requirements_file),
    ("reads_script_block", reads_script_block),
    ("packages_are_read_only", packages_are_read_only),
    ("standard_library_takes_precedence", standard_library_takes_precedence),
    ("lists_packages", lists_packages),
    ("prune_waits_for_running_resolution", prune_waits_for_running_resolution),
    ("loads_client_without_grant", loads_client_without_grant),
];

fn installs_package_and_requirements(kit: &Kit) -> Result<()> {
    let (name, need) = (unique("top"), unique("need"));
    let (module, inner) = (name.replace('-', "_"), need.replace('-', "_"));
    let text = format!("from {inner}.deep import VALUE\ndef hello():\n    return VALUE + 1\n");
    let index = Index::of([
        pure(&name, "1.2", &[&format!("{need}>=2")], &[(&format!("{module}/__init__.py"), &text)]),
        pure(&need, "1.0", &[], &[(&format!("{inner}/deep.py"), "VALUE = 0\n")]),
        pure(
            &need,
            "2.1",
            &[],
            &[(&format!("{inner}/__init__.py"), ""), (&format!("{inner}/deep.py"), "VALUE = 41\n")],
        ),
    ])?;
    let program = format!(
        "import {module}, importlib.metadata as m\nprint({module}.hello(), m.version('{name}'), m.version('{need}'))\n\
         import os\n\
         print(os.path.exists({module}.__spec__.cached), {module}.__file__)"
    );
    let result = run(kit, &index).args(["--with", &name, "-c", &program]).run()?;
    let report = result.report()?;
    ensure!(report.kind() == "ok", "{}", result.stdout_text());
    let expected = format!("42 1.2 2.1\nTrue /usr/local/lib/codebox/site-packages/{module}/__init__.py\n");
    ensure!(report.stdout() == expected, "{}", report.stdout());
    ensure!(report.at("/provenance/isolation") == "wasm", "{}", result.stdout_text());
    Ok(())
}

/// The library installs packages as the command line does, blocking and async, and compiles them in its own process.
fn library_installs_packages(kit: &Kit) -> Result<()> {
    let name = unique("embedded");
    let module = name.replace('-', "_");
    let index = Index::of([pure(&name, "1", &[], &[(&format!("{module}.py"), "VALUE = 7\n")])])?;
    let home = kit.folder()?;
    kit.home_with_engine(home.path(), "podman", &format!("packages.index = \"{}\"\n", index.address))?;
    let runner = codebox::builder(codebox::AppDirs::below(&home.path().canonicalize()?)).build();
    let program = format!("import os, {module}\nprint({module}.VALUE, os.path.exists({module}.__spec__.cached))");
    let request = || codebox::Request { packages: vec![name.clone()], ..codebox::Request::python(&program) };
    let executor = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    for report in [runner.run(request())?, executor.block_on(runner.run_async(request()))?] {
        ensure!(report.stdout.to_text_lossy() == "7 True\n", "{report:?}");
        ensure!(report.provenance.isolation == codebox::Isolation::Wasm, "{report:?}");
        ensure!(report.provenance.reason.contains(&format!("packages: {name} 1")), "{}", report.provenance.reason);
    }
    let missing = codebox::Request { packages: vec![unique("absent")], ..codebox::Request::python("1") };
    let error = runner.run(missing).err();
    ensure!(error.as_ref().is_some_and(|error| error.kind() == codebox::ResultKind::InstallFailed), "{error:?}");
    Ok(())
}

fn second_run_sends_no_requests(kit: &Kit) -> Result<()> {
    let name = unique("kept");
    let module = name.replace('-', "_");
    let index = Index::of([pure(&name, "1", &[], &[(&format!("{module}.py"), "VALUE = 7\n")])])?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    let job = || run(kit, &index).args(["--with", &name, "-c", &program]);
    ensure!(run_successfully(job())? == "7\n");
    let before = index.requests().len();
    ensure!(run_successfully(job())? == "7\n");
    ensure!(run_successfully(job().env("UV_OFFLINE", "1"))? == "7\n");
    ensure!(index.requests().len() == before, "{:?}", index.requests());
    let address = index.address.clone();
    drop(index);
    let job = without_engines(kit.run_json().env("UV_DEFAULT_INDEX", address));
    ensure!(run_successfully(job.args(["--with", &name, "-c", &program]))? == "7\n");
    Ok(())
}

fn uses_built_in_packages(kit: &Kit) -> Result<()> {
    let index = Index::of([])?;
    let program = "import six, numpy\nprint(numpy.arange(3).sum())";
    ensure!(run_successfully(run(kit, &index).args(["--with", "numpy>=2", "--with", "six", "-c", program]))? == "3\n");
    ensure!(index.requests().is_empty(), "{:?}", index.requests());
    let output = run_expecting_failure(run(kit, &index).args(["--with", "six<1", "-c", "1"]), "install_failed")?;
    ensure!(output.contains("six"), "{output}");
    Ok(())
}

fn reads_requirements_file(kit: &Kit) -> Result<()> {
    let name = unique("listed");
    let module = name.replace('-', "_");
    let index_file = pure(&name, "1", &[], &[(&format!("{module}.py"), "VALUE = 7\n")]);
    let index = Index::of([index_file.clone()])?;
    let folder = kit.folder()?;
    std::fs::write(folder.path().join("requirements.txt"), format!("# all\n{name} == 1  # this one\n"))?;
    let job = || run(kit, &index).folder(folder.path());
    let program = format!("import {module}\nprint({module}.VALUE)");
    ensure!(run_successfully(job().args(["-r", "requirements.txt", "-c", &program]))? == "7\n");
    // Listed hashes are enforced, wherever in the line they are.
    let zeros = "0".repeat(64);
    for (hashes, serves) in [
        (format!(" --hash=sha256:{}", index_file.announced_sha256), true),
        (format!(" \\\n  --hash=sha256:{zeros} \\\n  --hash=sha256:{}", index_file.announced_sha256), true),
        (format!(" --hash=sha256:{zeros}"), false),
        (format!(" \\\n  --hash=sha256:{zeros}"), false),
    ] {
        std::fs::write(folder.path().join("hashed.txt"), format!("{name}==1{hashes}\n"))?;
        let job = job().args(["-r", "hashed.txt", "-c", &program]);
        match serves {
            true => ensure!(run_successfully(job)? == "7\n"),
            false => ensure!(run_expecting_failure(job, "install_failed")?.contains("none of the hashes"), "{hashes}"),
        }
    }
    // A built-in package has no hash and does not satisfy a listed one.
    std::fs::write(folder.path().join("built_in.txt"), format!("six --hash=sha256:{zeros}\n"))?;
    let output = run_expecting_failure(job().args(["-r", "built_in.txt", "-c", "import six"]), "install_failed")?;
    ensure!(output.contains("six") && output.contains("is built in"), "{output}");
    std::fs::write(folder.path().join("bad.txt"), format!("{name}\n--index-url http://127.0.0.1:1/\n"))?;
    let output = run_expecting_failure(job().args(["-r", "bad.txt", "-c", "1"]), "invalid_request")?;
    ensure!(output.contains("bad.txt: line 2"), "{output}");
    Ok(())
}

fn reads_script_block(kit: &Kit) -> Result<()> {
    let name = unique("script");
    let module = name.replace('-', "_");
    let index = Index::of([pure(&name, "1", &[], &[(&format!("{module}.py"), "VALUE = 7\n")])])?;
    let folder = kit.folder()?;
    let text = format!(
        "# /// script\n# dependencies = ['{name}']\n# [tool.uv]\n# index-url = 'http://127.0.0.1:1/'\n# ///\n\
         import {module}\nprint({module}.VALUE)\n"
    );
    std::fs::write(folder.path().join("main.py"), text)?;
    ensure!(run_successfully(run(kit, &index).folder(folder.path()).arg("main.py"))? == "7\n");
    Ok(())
}

fn packages_are_read_only(kit: &Kit) -> Result<()> {
    let name = unique("fixed");
    let module = name.replace('-', "_");
    let index = Index::of([pure(&name, "1", &[], &[(&format!("{module}.py"), "VALUE = 7\n")])])?;
    let attack = format!(
        "import {module}, os\nplace = os.path.dirname({module}.__file__)\n\
         for act in (lambda: open({module}.__file__, 'w'), lambda: open(place + '/sitecustomize.py', 'w'),\n\
         \x20           lambda: os.remove({module}.__file__), lambda: os.rename({module}.__file__, place + '/x.py'),\n\
         \x20           lambda: os.mkdir(place + '/d'), lambda: os.symlink('/etc', place + '/l'),\n\
         \x20           lambda: os.truncate({module}.__spec__.cached, 0), lambda: open({module}.__spec__.cached, 'r+b'),\n\
         \x20           lambda: os.link({module}.__file__, '/work/x'), lambda: os.rename({module}.__file__, '/work/y')):\n\
         \x20   try:\n        act()\n    except OSError:\n        continue\n    print('changed')\nprint('done')"
    );
    ensure!(run_successfully(run(kit, &index).args(["--with", &name, "-c", &attack]))? == "done\n");
    let program = format!("import {module}\nprint({module}.VALUE)");
    ensure!(run_successfully(run(kit, &index).args(["--with", &name, "-c", &program]))? == "7\n");
    Ok(())
}

fn standard_library_takes_precedence(kit: &Kit) -> Result<()> {
    let name = unique("shadow");
    let module = name.replace('-', "_");
    let shadowing_module = "raise SystemExit('it ran')\n";
    let index = Index::of([pure(
        &name,
        "1",
        &[],
        &[
            ("json.py", shadowing_module),
            ("sitecustomize.py", shadowing_module),
            ("usercustomize.py", shadowing_module),
            ("evil.pth", "import sys; sys.exit('it ran')\n"),
            (&format!("{module}.py"), "import json\nVALUE = json.dumps(7)\n"),
            (&format!("{module}-1.data/scripts/python3"), "#!/bin/sh\nexit 9\n"),
            (&format!("{module}-1.data/data/etc/passwd"), "x"),
            (&format!("{module}-1.data/purelib/{module}_more.py"), "VALUE = 8\n"),
        ],
    )])?;
    let program = format!(
        "import {module}, {module}_more, os\nprint({module}.VALUE, {module}_more.VALUE)\n\
         print(sorted(n for n in os.listdir(os.path.dirname({module}.__file__)) if 'dist-info' not in n and n != '__pycache__'))"
    );
    let output = run_successfully(run(kit, &index).args(["--with", &name, "-c", &program]))?;
    let expected = format!("7 8\n['{module}.py', '{module}_more.py', 'json.py']\n");
    let mut names: Vec<String> = vec!["json.py".to_owned(), format!("{module}.py"), format!("{module}_more.py")];
    names.sort();
    ensure!(
        output.starts_with("7 8\n") && names.iter().all(|name| output.contains(name.as_str())),
        "{output} {expected}"
    );
    ensure!(!output.contains("customize") && !output.contains(".pth") && !output.contains("python3"), "{output}");
    Ok(())
}

fn lists_packages(kit: &Kit) -> Result<()> {
    let name = unique("list");
    let module = name.replace('-', "_");
    let index = Index::of([pure(&name, "1", &[], &[(&format!("{module}.py"), "VALUE = 7\n")])])?;
    run_successfully(run(kit, &index).args(["--with", &name, "-c", "1"]))?;
    let shown = kit.codebox().args(["packages", "show", &name]).run()?;
    ensure!(shown.stdout_text().contains("wasm-3.15"), "{} {}", shown.stdout_text(), shown.stderr_text());
    let listed = kit.codebox().args(["packages", "list"]).run()?;
    ensure!(listed.stdout_text().contains(&module), "{}", listed.stdout_text());
    // The list is sorted by name, regardless of the case of file names.
    let (small, large) = (unique("order-a"), unique("order-b").to_uppercase());
    let index = Index::of([pure(&small, "1", &[], &[]), pure(&large, "1", &[], &[])])?;
    run_successfully(run(kit, &index).args(["--with", &small, "--with", &large, "-c", "1"]))?;
    let listed = kit.codebox().args(["packages", "list"]).run()?.stdout_text();
    let position = |name: &str| listed.find(&name.replace('-', "_"));
    ensure!(position(&small).is_some() && position(&small) < position(&large), "{listed}");
    let none = kit.codebox().args(["packages", "show", "cbt-nothing-like-it"]).run()?;
    ensure!(none.code != Some(0));
    Ok(())
}

/// `packages prune` waits for a run that is still querying an index.
fn prune_waits_for_running_resolution(kit: &Kit) -> Result<()> {
    let home = kit.folder()?;
    kit.home_with_engine(home.path(), "podman", "")?;
    let index = Index::with_behaviour([], Behaviour::Dripping)?;
    let job = run(kit, &index).home(home.path()).env("UV_HTTP_TIMEOUT", "3").env("UV_HTTP_RETRIES", "0");
    let job = job.args(["--with", &unique("beside"), "-c", "print(1)"]);
    let pruned = std::thread::scope(|scope| {
        let running = scope.spawn(|| run_expecting_failure(job, "engine_unavailable"));
        while index.requests().is_empty() && !running.is_finished() {
            std::thread::yield_now();
        }
        let pruned = kit.codebox().home(home.path()).args(["packages", "prune"]).run();
        running.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        pruned
    })?;
    ensure!(pruned.code == Some(0), "{}", pruned.stderr_text());
    ensure!(pruned.stderr_text().contains("waiting for another run"), "{}", pruned.stderr_text());
    Ok(())
}

/// Many packages with a network client import network modules even if only a part of the package needs them.
fn loads_client_without_grant(kit: &Kit) -> Result<()> {
    let name = unique("client");
    let module = name.replace('-', "_");
    let text = "import socket, ssl, http.client\nVALUE = ssl.create_default_context().verify_mode.name\n\
                def call(port):\n    return socket.create_connection(('127.0.0.1', port))\n";
    let index = Index::of([pure(&name, "1", &[], &[(&format!("{module}.py"), text)])])?;
    let port = index.address.trim_end_matches("/simple").rsplit(':').next().unwrap_or_default().to_owned();
    let program = format!(
        "import {module}\nprint({module}.VALUE)\ntry:\n    {module}.call({port})\nexcept OSError as error:\n    print(type(error).__name__)"
    );
    let result = run(kit, &index).args(["--with", &name, "-c", &program]).run()?;
    ensure!(result.report()?.stdout() == "CERT_REQUIRED\nPermissionError\n", "{}", result.stdout_text());
    // A program without packages does not get the `ssl` module.
    run_expecting_failure(run(kit, &index).args(["-c", "import ssl"]), "guest_error")?;
    Ok(())
}
