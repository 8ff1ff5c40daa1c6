//! Well-behaved source distributions.

use anyhow::{Result, ensure};

use super::{Case, TestEnvironment};
use crate::index::{Index, pure, sdist, unique};
use crate::sdist_source::Source;
use crate::{run_expecting_failure, run_successfully, without_engines};

pub(super) const CASES: &[Case] = &[
    ("builds_pure_package_once_for_wasm", builds_pure_package_once_for_wasm),
    ("builds_native_package_once_for_container", builds_native_package_once_for_container),
    ("installs_build_in_container", installs_build_in_container),
    ("installs_dynamic_requirements", with_dynamic_metadata),
    ("installs_build_requirements", installs_build_requirements),
    ("runs_scripts_of_build_requirements", runs_scripts_of_build_requirements),
    ("prefers_wheels", prefers_wheels),
    ("locks_source", locks_source),
    ("honours_configuration", honours_configuration),
    ("checks_source_hashes", checks_source_hashes),
    ("concurrent_runs_build_once", concurrent_runs_build_once),
];

fn builds_pure_package_once_for_wasm(test_env: &TestEnvironment) -> Result<()> {
    let name = unique("pure");
    let module = name.replace('-', "_");
    let index = Index::of([Source::of(&name, "VALUE = BUILT_AT\n").with_static_metadata()])?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    let result = test_env.with(&index, &name, &program).run()?;
    let report = result.report()?;
    ensure!(report.kind() == "ok", "{}\n{}", result.stdout_text(), result.stderr_text());
    ensure!(report.at("/provenance/isolation") == "wasm", "{}", result.stdout_text());
    let why = report.at("/provenance/reason").as_str().unwrap_or_default().to_owned();
    ensure!(why.contains(&format!("{name} 1 is built from {module}-1.tar.gz")), "{why}");
    let (first, building_run) = (report.stdout().to_owned(), index.requests().len());
    // A built wheel is cached: a second run needs neither the index nor an engine.
    let again = without_engines(test_env.with(&index, &name, &program));
    ensure!(run_successfully(again)? == first);
    ensure!(index.requests().len() == building_run, "{:?}", index.requests());
    let explanation = test_env.codebox(&index).args(["explain", "--build", "--with", &name, "-c", &program]).run()?;
    ensure!(explanation.stdout_text().contains("is built from"), "{}", explanation.stdout_text());
    let listed = test_env.run_packages(&["list"])?;
    ensure!(listed.contains(&format!("  {module}-1.tar.gz")), "{listed}");
    let shown = test_env.run_packages(&["show", &name])?;
    ensure!(shown.contains("built    from") && shown.contains(&index.announced_sha256(&name)), "{shown}");
    ensure!(!test_env.run_packages(&["prune"])?.is_empty() && !test_env.has_built_packages());
    ensure!(test_env.run_packages(&["list"])?.contains("no packages are stored"));
    let rebuilt = run_successfully(test_env.with(&index, &name, &program))?;
    ensure!(rebuilt != first, "{rebuilt}");
    Ok(())
}

fn builds_native_package_once_for_container(test_env: &TestEnvironment) -> Result<()> {
    let name = unique("native");
    let module = name.replace('-', "_");
    let tag = format!("py3-none-linux_{}", std::env::consts::ARCH);
    let index = Index::of([Source { tag: &tag, ..Source::of(&name, "VALUE = BUILT_AT\n") }.with_static_metadata()])?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    let (mut output, mut building_run) = (String::new(), 0);
    for run_name in ["the first", "the second"] {
        let result = test_env.with(&index, &name, &program).run()?;
        let report = result.report()?;
        ensure!(report.kind() == "ok", "{run_name}: {}\n{}", result.stdout_text(), result.stderr_text());
        ensure!(report.at("/provenance/isolation") == "container", "{}", result.stdout_text());
        let why = report.at("/provenance/reason").as_str().unwrap_or_default().to_owned();
        ensure!(why.contains(&format!("{name} 1 is built from")) && why.contains("require a container"), "{why}");
        ensure!(
            output.is_empty() || output == report.stdout() && building_run == index.requests().len(),
            "{run_name}: {:?}",
            index.requests()
        );
        (output, building_run) = (report.stdout().to_owned(), index.requests().len());
    }
    Ok(())
}

fn installs_build_in_container(test_env: &TestEnvironment) -> Result<()> {
    let name = unique("there");
    let module = name.replace('-', "_");
    let index = Index::of([Source::of(&name, "VALUE = BUILT_AT\n").with_dynamic_metadata()])?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    let job = test_env.building(&index).args(["--isolation", "container", "--with", &name, "-c", &program]);
    let result = job.run()?;
    let report = result.report()?;
    ensure!(report.kind() == "ok", "{}\n{}", result.stdout_text(), result.stderr_text());
    let why = report.at("/provenance/reason").as_str().unwrap_or_default().to_owned();
    ensure!(why.contains("is built from"), "{why}");
    // The wheel was built in the default image and supports any platform.
    ensure!(run_successfully(test_env.with(&index, &name, &program))? == report.stdout());
    Ok(())
}

fn with_dynamic_metadata(test_env: &TestEnvironment) -> Result<()> {
    let (name, need) = (unique("unstated"), unique("need"));
    let (module, inner) = (name.replace('-', "_"), need.replace('-', "_"));
    let text = format!("from {inner} import VALUE\n");
    let index = Index::of([
        Source { requires: &[&format!("{need}>=2")], ..Source::of(&name, &text) }.with_dynamic_metadata(),
        pure(&need, "1", &[], &[(&format!("{inner}.py"), "VALUE = 1\n")]),
        pure(&need, "2", &[], &[(&format!("{inner}.py"), "VALUE = 2\n")]),
    ])?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    ensure!(run_successfully(test_env.with(&index, &name, &program))? == "2\n");
    Ok(())
}

/// The build backend is in a package of the index and requires one more package. Build requirements are not installed
/// for the program.
fn installs_build_requirements(test_env: &TestEnvironment) -> Result<()> {
    let (name, tool, transitive_tool) = (unique("built"), unique("tool"), unique("more"));
    let [module, builder, inner] = [&name, &tool, &transitive_tool].map(|name| name.replace('-', "_"));
    let backend = format!(
        "import os, zipfile\ndef get_requires_for_build_wheel(settings=None):\n    return ['{transitive_tool}>=1']\n\
         def build_wheel(directory, settings=None, metadata=None):\n    import {inner}\n    name = '{module}-1-py3-none-any.whl'\n\
         \x20   with zipfile.ZipFile(os.path.join(directory, name), 'w') as wheel:\n\
         \x20       wheel.writestr('{module}.py', f'VALUE = {{{inner}.VALUE}}\\n')\n\
         \x20       wheel.writestr('{module}-1.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: {name}\\nVersion: 1\\n')\n\
         \x20   return name\n"
    );
    let project = format!("[build-system]\nrequires = ['{tool}']\nbuild-backend = '{builder}'\n");
    let source = sdist(&name, "1", &[("pyproject.toml", &project), (&format!("{inner}.py"), "VALUE = 'the source'\n")]);
    let program = format!(
        "import {module}\nprint({module}.VALUE)\ntry:\n    import {inner}\nexcept ImportError:\n    print('absent')"
    );
    let index = Index::of([
        source.clone(),
        pure(&tool, "1", &[], &[(&format!("{builder}.py"), &backend)]),
        pure(&transitive_tool, "1", &[], &[(&format!("{inner}.py"), "VALUE = 7\n")]),
    ])?;
    ensure!(run_successfully(test_env.with(&index, &name, &program))? == "7\nabsent\n");
    // Build requirements need wheels; otherwise the build fails.
    let other = unique("other");
    let project = format!("[build-system]\nrequires = ['{other}']\nbuild-backend = '{builder}'\n");
    let index =
        Index::of([sdist(&name, "1", &[("pyproject.toml", &project)]), Source::of(&other, "").with_static_metadata()])?;
    let output = run_expecting_failure(test_env.with(&index, &name, &program), "install_failed")?;
    ensure!(output.contains("cannot install its build requirements") && output.contains(&other), "{output}");
    Ok(())
}

/// The build can start a script of a wheel and a script of its entry points; the program that uses the package finds
/// neither.
fn runs_scripts_of_build_requirements(test_env: &TestEnvironment) -> Result<()> {
    let (name, tool) = (unique("starts"), unique("tool"));
    let [module, builder] = [&name, &tool].map(|name| name.replace('-', "_"));
    let backend = format!(
        "import os, subprocess, zipfile\ndef main():\n    print('an entry')\n\
         def build_wheel(directory, settings=None, metadata=None):\n    name = '{module}-1-py3-none-any.whl'\n\
         \x20   output = [subprocess.check_output([one], text=True).strip() for one in ('cbt-script', 'cbt-entry')]\n\
         \x20   with zipfile.ZipFile(os.path.join(directory, name), 'w') as wheel:\n\
         \x20       wheel.writestr('{module}.py', f'VALUE = {{output}}\\n')\n\
         \x20       wheel.writestr('{module}-1.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: {name}\\nVersion: 1\\n')\n\
         \x20   return name\n"
    );
    let project = format!("[build-system]\nrequires = ['{tool}']\nbuild-backend = '{builder}'\n");
    let index = Index::of([
        sdist(&name, "1", &[("pyproject.toml", &project)]),
        pure(
            &tool,
            "1",
            &[],
            &[
                (&format!("{builder}.py"), &backend),
                (&format!("{builder}-1.data/scripts/cbt-script"), "#!python\nprint('a script')\n"),
                (
                    &format!("{builder}-1.dist-info/entry_points.txt"),
                    &format!("[console_scripts]\ncbt-entry = {builder}:main\n../../escaped = {builder}:main\n"),
                ),
            ],
        ),
    ])?;
    let program = format!(
        "import {module}, os, shutil\nprint({module}.VALUE)\n\
         print(shutil.which('cbt-script'), os.path.exists('/usr/local/lib/codebox/programs'))"
    );
    let job = test_env.building(&index).args(["--with", &tool, "--with", &name]);
    let expected = "['a script', 'an entry']\nNone False\n";
    ensure!(run_successfully(job.clone().args(["-c", &program]))? == expected);
    ensure!(run_successfully(job.args(["--isolation", "container", "-c", &program]))? == expected);
    Ok(())
}

fn prefers_wheels(test_env: &TestEnvironment) -> Result<()> {
    let name = unique("both");
    let module = name.replace('-', "_");
    let file = format!("{module}.py");
    let index = Index::of([
        Source::of(&name, "VALUE = 'the source'\n").with_static_metadata(),
        pure(&name, "1", &[], &[(&file, "VALUE = 'the wheel'\n")]),
    ])?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    ensure!(run_successfully(test_env.with(&index, &name, &program))? == "the wheel\n");
    ensure!(
        !index.requests().iter().any(|path| path.contains("tar.gz")) && !test_env.has_built_packages(),
        "{:?}",
        index.requests()
    );
    Ok(())
}

fn locks_source(test_env: &TestEnvironment) -> Result<()> {
    let name = unique("locked");
    let module = name.replace('-', "_");
    let index = Index::of([Source::of(&name, "VALUE = 1\n").with_static_metadata()])?;
    let folder = test_env.kit.folder()?;
    let (script, lock) = (folder.path().join("main.py"), folder.path().join("main.py.lock"));
    std::fs::write(
        &script,
        format!("# /// script\n# dependencies = ['{name}']\n# ///\nimport {module}\nprint({module}.VALUE)\n"),
    )?;
    let lock_result = test_env.codebox(&index).folder(folder.path()).args(["lock", "main.py"]).run()?;
    ensure!(
        lock_result.code == Some(125) && lock_result.stderr_text().contains("--build"),
        "{}",
        lock_result.stderr_text()
    );
    let lock_result = test_env.codebox(&index).folder(folder.path()).args(["lock", "--build", "main.py"]).run()?;
    ensure!(lock_result.code == Some(0), "{}", lock_result.stderr_text());
    let written = std::fs::read_to_string(&lock)?;
    let hash = index.announced_sha256(&name);
    ensure!(written.contains(".sources]]") && written.contains(&hash), "{written}");
    ensure!(!written.contains(".whl"), "{written}");
    let run_without_build = test_env.codebox(&index).folder(folder.path()).args(["run", "--json", "main.py"]);
    let output = run_expecting_failure(run_without_build, "install_failed")?;
    ensure!(output.contains("as a source distribution") && output.contains("--build"), "{output}");
    ensure!(run_successfully(test_env.building(&index).folder(folder.path()).arg("main.py"))? == "1\n");
    // A file of the same name with other content is a different package.
    let other = Index::of([Source::of(&name, "VALUE = 2\n").with_static_metadata()])?;
    std::fs::write(&lock, written.replace(&hash, &"1".repeat(64)))?;
    let output =
        run_expecting_failure(test_env.building(&other).folder(folder.path()).arg("main.py"), "install_failed")?;
    ensure!(output.contains("sha256"), "{output}");
    // A package cannot be built under the name of another.
    let evil = unique("evil");
    let metadata = format!("Metadata-Version: 2.1\\nName: {name}\\nVersion: 1\\n");
    let impostor = Source {
        build_code: &format!(
            "MANIFEST['members'] = {{'{module}.py': '', '{module}-1.dist-info/METADATA': '{metadata}'}}"
        ),
        file: Some(format!("{module}-1-py3-none-any.whl")),
        ..Source::of(&evil, "")
    };
    let both = Index::of([Source::of(&name, "VALUE = 1\n").with_static_metadata(), impostor.with_static_metadata()])?;
    std::fs::write(&lock, written.replace(&hash, &both.announced_sha256(&evil)))?;
    let run_planted = || test_env.building(&both).folder(folder.path()).arg("main.py");
    ensure!(run_expecting_failure(run_planted(), "install_failed")?.contains("sha256"));
    // A cached package that claims to be the other one is refused too.
    ensure!(
        run_expecting_failure(test_env.with(&both, &evil, "print(1)"), "install_failed")?
            .contains("its name or version does not match")
    );
    ensure!(run_expecting_failure(run_planted(), "install_failed")?.contains("sha256"));
    Ok(())
}

fn honours_configuration(test_env: &TestEnvironment) -> Result<()> {
    let name = unique("configured");
    let module = name.replace('-', "_");
    let index = Index::of([Source::of(&name, "VALUE = 7\n").with_static_metadata()])?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    let folder = test_env.kit.folder()?;
    let project = folder.path().join("codebox.toml");
    let plain =
        || test_env.codebox(&index).folder(folder.path()).args(["run", "--json", "--with", &name, "-c", &program]);
    let building_run = || test_env.with(&index, &name, &program).folder(folder.path());
    std::fs::write(&project, "[packages]\nbuild = true\n")?;
    ensure!(run_expecting_failure(plain(), "invalid_request")?.contains("a project cannot enable package builds"));
    std::fs::write(&project, "[packages]\nbuild = false\n")?;
    ensure!(run_expecting_failure(building_run(), "denied")?.contains("not allowed by the configuration"));
    std::fs::remove_file(&project)?;
    ensure!(run_expecting_failure(plain(), "install_failed")?.contains("--build"));
    test_env.configure("packages = { build = false }\n")?;
    ensure!(run_expecting_failure(building_run(), "denied")?.contains("not allowed by the configuration"));
    test_env.configure("isolation = \"wasm\"\n")?;
    ensure!(run_expecting_failure(building_run(), "denied")?.contains("does not allow containers"));
    ensure!(!test_env.has_built_packages());
    test_env.configure("packages = { build = true }\n")?;
    ensure!(run_successfully(plain())? == "7\n");
    Ok(())
}

fn checks_source_hashes(test_env: &TestEnvironment) -> Result<()> {
    let name = unique("hashed");
    let module = name.replace('-', "_");
    let index = Index::of([Source::of(&name, "VALUE = 7\n").with_static_metadata()])?;
    let folder = test_env.kit.folder()?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    let job = |hash: &str| -> Result<_> {
        std::fs::write(folder.path().join("r.txt"), format!("{name}==1 --hash=sha256:{hash}\n"))?;
        Ok(test_env.building(&index).folder(folder.path()).args(["-r", "r.txt", "-c", &program]))
    };
    ensure!(run_expecting_failure(job(&"0".repeat(64))?, "install_failed")?.contains("none of the hashes"));
    ensure!(!test_env.has_built_packages());
    ensure!(run_successfully(job(&index.announced_sha256(&name))?)? == "7\n");
    Ok(())
}

fn concurrent_runs_build_once(test_env: &TestEnvironment) -> Result<()> {
    let name = unique("together");
    let module = name.replace('-', "_");
    let index = Index::of([
        Source { build_code: "time.sleep(3)", ..Source::of(&name, "VALUE = BUILT_AT\n") }.with_static_metadata()
    ])?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    let all = std::thread::scope(|scope| {
        let running = [(); 3].map(|()| scope.spawn(|| test_env.with(&index, &name, &program).run()));
        running.map(|running_run| running_run.join().map_err(|_| anyhow::anyhow!("a thread panicked")))
    });
    let (mut output, mut waiting_runs) = (Vec::new(), 0);
    for running_run in all {
        let result = running_run??;
        let report = result.report()?;
        ensure!(report.kind() == "ok", "{}\n{}", result.stdout_text(), result.stderr_text());
        output.push(report.stdout().to_owned());
        let waiting_note = format!("waiting for another run to build {name} 1");
        waiting_runs += usize::from(result.stderr_text().contains(&waiting_note));
    }
    output.dedup();
    ensure!(output.len() == 1, "{output:?}");
    ensure!(waiting_runs > 0, "no run reported waiting");
    let listed = test_env.run_packages(&["list"])?;
    ensure!(listed.lines().count() == 2 && listed.contains("BUILT FROM") && listed.contains(".tar.gz"), "{listed}");
    Ok(())
}
