//! Well-behaved source distributions.

use anyhow::{Result, ensure};

use super::{Case, Ground};
use crate::built::Source;
use crate::index::{Index, pure, sdist, unique};
use crate::{printed, refused, without_engines};

pub(super) const CASES: &[Case] = &[
    ("a_pure_one_serves_in_wasm_and_is_built_once", in_wasm),
    ("a_native_one_leads_to_a_container_and_is_built_once", in_container),
    ("a_job_for_a_container_has_it_there", named_container),
    ("what_only_the_wheel_tells_is_had", unstated),
    ("what_it_is_built_with_is_had", tools),
    ("it_can_start_the_programs_of_what_it_is_built_with", programs),
    ("wheels_go_before_sources", wheels_first),
    ("a_lock_names_the_source", locked),
    ("the_configuration_decides", configured),
    ("listed_hashes_are_the_sources_own", hashed),
    ("who_comes_at_the_same_time_waits_and_builds_nothing", together),
];

fn in_wasm(ground: &Ground) -> Result<()> {
    let name = unique("pure");
    let module = name.replace('-', "_");
    let index = Index::of([Source::of(&name, "VALUE = BUILT_AT\n").stated()])?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    let ran = ground.with(&index, &name, &program).run()?;
    let report = ran.report()?;
    ensure!(report.kind() == "ok", "{}\n{}", ran.stdout_text(), ran.stderr_text());
    ensure!(report.at("/provenance/isolation") == "wasm", "{}", ran.stdout_text());
    let why = report.at("/provenance/reason").as_str().unwrap_or_default().to_owned();
    ensure!(why.contains(&format!("{name} 1 is built from {module}-1.tar.gz")), "{why}");
    let (first, asked) = (report.stdout().to_owned(), index.seen().len());
    // A built wheel is cached: a second run needs neither the index nor an engine.
    let again = without_engines(ground.with(&index, &name, &program));
    ensure!(printed(again)? == first);
    ensure!(index.seen().len() == asked, "{:?}", index.seen());
    let told = ground.codebox(&index).args(["explain", "--build", "--with", &name, "-c", &program]).run()?;
    ensure!(told.stdout_text().contains("is built from"), "{}", told.stdout_text());
    let listed = ground.kept(&["list"])?;
    ensure!(listed.contains(&format!("built from {module}-1.tar.gz")), "{listed}");
    let shown = ground.kept(&["show", &name])?;
    ensure!(shown.contains("built    from") && shown.contains(&index.announced(&name)), "{shown}");
    ensure!(!ground.kept(&["prune"])?.is_empty() && !ground.has_built());
    ensure!(ground.kept(&["list"])?.contains("no packages are stored"));
    let anew = printed(ground.with(&index, &name, &program))?;
    ensure!(anew != first, "{anew}");
    Ok(())
}

fn in_container(ground: &Ground) -> Result<()> {
    let name = unique("native");
    let module = name.replace('-', "_");
    let tag = format!("py3-none-linux_{}", std::env::consts::ARCH);
    let index = Index::of([Source { tag: &tag, ..Source::of(&name, "VALUE = BUILT_AT\n") }.stated()])?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    let (mut said, mut asked) = (String::new(), 0);
    for turn in ["the first", "the second"] {
        let ran = ground.with(&index, &name, &program).run()?;
        let report = ran.report()?;
        ensure!(report.kind() == "ok", "{turn}: {}\n{}", ran.stdout_text(), ran.stderr_text());
        ensure!(report.at("/provenance/isolation") == "container", "{}", ran.stdout_text());
        let why = report.at("/provenance/reason").as_str().unwrap_or_default().to_owned();
        ensure!(why.contains(&format!("{name} 1 is built from")) && why.contains("require a container"), "{why}");
        ensure!(
            said.is_empty() || said == report.stdout() && asked == index.seen().len(),
            "{turn}: {:?}",
            index.seen()
        );
        (said, asked) = (report.stdout().to_owned(), index.seen().len());
    }
    Ok(())
}

fn named_container(ground: &Ground) -> Result<()> {
    let name = unique("there");
    let module = name.replace('-', "_");
    let index = Index::of([Source::of(&name, "VALUE = BUILT_AT\n").unstated()])?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    let job = ground.building(&index).args(["--isolation", "container", "--with", &name, "-c", &program]);
    let ran = job.run()?;
    let report = ran.report()?;
    ensure!(report.kind() == "ok", "{}\n{}", ran.stdout_text(), ran.stderr_text());
    let why = report.at("/provenance/reason").as_str().unwrap_or_default().to_owned();
    ensure!(why.contains("is built from"), "{why}");
    // The wheel was built in the default image and supports any platform.
    ensure!(printed(ground.with(&index, &name, &program))? == report.stdout());
    Ok(())
}

fn unstated(ground: &Ground) -> Result<()> {
    let (name, need) = (unique("unstated"), unique("need"));
    let (module, inner) = (name.replace('-', "_"), need.replace('-', "_"));
    let text = format!("from {inner} import VALUE\n");
    let index = Index::of([
        Source { requires: &[&format!("{need}>=2")], ..Source::of(&name, &text) }.unstated(),
        pure(&need, "1", &[], &[(&format!("{inner}.py"), "VALUE = 1\n")]),
        pure(&need, "2", &[], &[(&format!("{inner}.py"), "VALUE = 2\n")]),
    ])?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    ensure!(printed(ground.with(&index, &name, &program))? == "2\n");
    Ok(())
}

/// The build backend is in a package of the index and requires one more package. Build requirements are not installed
/// for the program.
fn tools(ground: &Ground) -> Result<()> {
    let (name, tool, more) = (unique("built"), unique("tool"), unique("more"));
    let [module, builder, inner] = [&name, &tool, &more].map(|name| name.replace('-', "_"));
    let backend = format!(
        "import os, zipfile\ndef get_requires_for_build_wheel(settings=None):\n    return ['{more}>=1']\n\
         def build_wheel(directory, settings=None, metadata=None):\n    import {inner}\n    name = '{module}-1-py3-none-any.whl'\n\
         \x20   with zipfile.ZipFile(os.path.join(directory, name), 'w') as wheel:\n\
         \x20       wheel.writestr('{module}.py', f'VALUE = {{{inner}.VALUE}}\\n')\n\
         \x20       wheel.writestr('{module}-1.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: {name}\\nVersion: 1\\n')\n\
         \x20   return name\n"
    );
    let project = format!("[build-system]\nrequires = ['{tool}']\nbuild-backend = '{builder}'\n");
    let source = sdist(&name, "1", &[("pyproject.toml", &project), (&format!("{inner}.py"), "VALUE = 'the source'\n")]);
    let program = format!(
        "import {module}\nprint({module}.VALUE)\ntry:\n    import {inner}\nexcept ImportError:\n    print('gone')"
    );
    let index = Index::of([
        source.clone(),
        pure(&tool, "1", &[], &[(&format!("{builder}.py"), &backend)]),
        pure(&more, "1", &[], &[(&format!("{inner}.py"), "VALUE = 7\n")]),
    ])?;
    ensure!(printed(ground.with(&index, &name, &program))? == "7\ngone\n");
    // Build requirements need wheels; otherwise the build fails.
    let other = unique("other");
    let project = format!("[build-system]\nrequires = ['{other}']\nbuild-backend = '{builder}'\n");
    let index = Index::of([sdist(&name, "1", &[("pyproject.toml", &project)]), Source::of(&other, "").stated()])?;
    let said = refused(ground.with(&index, &name, &program), "install_failed")?;
    ensure!(said.contains("cannot install its build requirements") && said.contains(&other), "{said}");
    Ok(())
}

/// The build can start a script of a wheel and a script of its entry points; the program that uses the package finds
/// neither.
fn programs(ground: &Ground) -> Result<()> {
    let (name, tool) = (unique("starts"), unique("tool"));
    let [module, builder] = [&name, &tool].map(|name| name.replace('-', "_"));
    let backend = format!(
        "import os, subprocess, zipfile\ndef main():\n    print('an entry')\n\
         def build_wheel(directory, settings=None, metadata=None):\n    name = '{module}-1-py3-none-any.whl'\n\
         \x20   said = [subprocess.check_output([one], text=True).strip() for one in ('cbt-script', 'cbt-entry')]\n\
         \x20   with zipfile.ZipFile(os.path.join(directory, name), 'w') as wheel:\n\
         \x20       wheel.writestr('{module}.py', f'VALUE = {{said}}\\n')\n\
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
    let job = ground.building(&index).args(["--with", &tool, "--with", &name]);
    let expected = "['a script', 'an entry']\nNone False\n";
    ensure!(printed(job.clone().args(["-c", &program]))? == expected);
    ensure!(printed(job.args(["--isolation", "container", "-c", &program]))? == expected);
    Ok(())
}

fn wheels_first(ground: &Ground) -> Result<()> {
    let name = unique("both");
    let module = name.replace('-', "_");
    let file = format!("{module}.py");
    let index = Index::of([
        Source::of(&name, "VALUE = 'the source'\n").stated(),
        pure(&name, "1", &[], &[(&file, "VALUE = 'the wheel'\n")]),
    ])?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    ensure!(printed(ground.with(&index, &name, &program))? == "the wheel\n");
    ensure!(!index.seen().iter().any(|path| path.contains("tar.gz")) && !ground.has_built(), "{:?}", index.seen());
    Ok(())
}

fn locked(ground: &Ground) -> Result<()> {
    let name = unique("locked");
    let module = name.replace('-', "_");
    let index = Index::of([Source::of(&name, "VALUE = 1\n").stated()])?;
    let folder = ground.kit.folder()?;
    let (script, lock) = (folder.path().join("main.py"), folder.path().join("main.py.lock"));
    std::fs::write(
        &script,
        format!("# /// script\n# dependencies = ['{name}']\n# ///\nimport {module}\nprint({module}.VALUE)\n"),
    )?;
    let made = ground.codebox(&index).folder(folder.path()).args(["lock", "main.py"]).run()?;
    ensure!(made.code == Some(125) && made.stderr_text().contains("--build"), "{}", made.stderr_text());
    let made = ground.codebox(&index).folder(folder.path()).args(["lock", "--build", "main.py"]).run()?;
    ensure!(made.code == Some(0), "{}", made.stderr_text());
    let written = std::fs::read_to_string(&lock)?;
    let hash = index.announced(&name);
    ensure!(written.contains(".sources]]") && written.contains(&hash), "{written}");
    ensure!(!written.contains(".whl"), "{written}");
    let unasked = ground.codebox(&index).folder(folder.path()).args(["run", "--json", "main.py"]);
    let said = refused(unasked, "install_failed")?;
    ensure!(said.contains("as a source distribution") && said.contains("--build"), "{said}");
    ensure!(printed(ground.building(&index).folder(folder.path()).arg("main.py"))? == "1\n");
    // A file of the same name with other content is a different package.
    let other = Index::of([Source::of(&name, "VALUE = 2\n").stated()])?;
    std::fs::write(&lock, written.replace(&hash, &"1".repeat(64)))?;
    let said = refused(ground.building(&other).folder(folder.path()).arg("main.py"), "install_failed")?;
    ensure!(said.contains("sha256"), "{said}");
    // A package cannot be built under the name of another.
    let evil = unique("evil");
    let metadata = format!("Metadata-Version: 2.1\\nName: {name}\\nVersion: 1\\n");
    let poses = Source {
        runs: &format!("SAID['members'] = {{'{module}.py': '', '{module}-1.dist-info/METADATA': '{metadata}'}}"),
        file: Some(format!("{module}-1-py3-none-any.whl")),
        ..Source::of(&evil, "")
    };
    let both = Index::of([Source::of(&name, "VALUE = 1\n").stated(), poses.stated()])?;
    std::fs::write(&lock, written.replace(&hash, &both.announced(&evil)))?;
    let planted = || ground.building(&both).folder(folder.path()).arg("main.py");
    ensure!(refused(planted(), "install_failed")?.contains("sha256"));
    // A cached package that claims to be the other one is refused too.
    ensure!(
        refused(ground.with(&both, &evil, "print(1)"), "install_failed")?
            .contains("its name or version does not match")
    );
    ensure!(refused(planted(), "install_failed")?.contains("sha256"));
    Ok(())
}

fn configured(ground: &Ground) -> Result<()> {
    let name = unique("configured");
    let module = name.replace('-', "_");
    let index = Index::of([Source::of(&name, "VALUE = 7\n").stated()])?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    let folder = ground.kit.folder()?;
    let project = folder.path().join("codebox.toml");
    let plain =
        || ground.codebox(&index).folder(folder.path()).args(["run", "--json", "--with", &name, "-c", &program]);
    let asked = || ground.with(&index, &name, &program).folder(folder.path());
    std::fs::write(&project, "[packages]\nbuild = true\n")?;
    ensure!(refused(plain(), "invalid_request")?.contains("a project cannot enable package builds"));
    std::fs::write(&project, "[packages]\nbuild = false\n")?;
    ensure!(refused(asked(), "denied")?.contains("not allowed by the configuration"));
    std::fs::remove_file(&project)?;
    ensure!(refused(plain(), "install_failed")?.contains("--build"));
    ground.configure("packages = { build = false }\n")?;
    ensure!(refused(asked(), "denied")?.contains("not allowed by the configuration"));
    ground.configure("isolation = \"wasm\"\n")?;
    ensure!(refused(asked(), "denied")?.contains("does not allow containers"));
    ensure!(!ground.has_built());
    ground.configure("packages = { build = true }\n")?;
    ensure!(printed(plain())? == "7\n");
    Ok(())
}

fn hashed(ground: &Ground) -> Result<()> {
    let name = unique("hashed");
    let module = name.replace('-', "_");
    let index = Index::of([Source::of(&name, "VALUE = 7\n").stated()])?;
    let folder = ground.kit.folder()?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    let job = |hash: &str| -> Result<_> {
        std::fs::write(folder.path().join("r.txt"), format!("{name}==1 --hash=sha256:{hash}\n"))?;
        Ok(ground.building(&index).folder(folder.path()).args(["-r", "r.txt", "-c", &program]))
    };
    ensure!(refused(job(&"0".repeat(64))?, "install_failed")?.contains("none of the hashes"));
    ensure!(!ground.has_built());
    ensure!(printed(job(&index.announced(&name))?)? == "7\n");
    Ok(())
}

fn together(ground: &Ground) -> Result<()> {
    let name = unique("together");
    let module = name.replace('-', "_");
    let index = Index::of([Source { runs: "time.sleep(3)", ..Source::of(&name, "VALUE = BUILT_AT\n") }.stated()])?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    let all = std::thread::scope(|scope| {
        let running = [(); 3].map(|()| scope.spawn(|| ground.with(&index, &name, &program).run()));
        running.map(|one| one.join().map_err(|_| anyhow::anyhow!("a thread panicked")))
    });
    let (mut said, mut waited) = (Vec::new(), 0);
    for one in all {
        let ran = one??;
        let report = ran.report()?;
        ensure!(report.kind() == "ok", "{}\n{}", ran.stdout_text(), ran.stderr_text());
        said.push(report.stdout().to_owned());
        let waits = format!("waiting for another run to build {name} 1");
        waited += usize::from(ran.stderr_text().contains(&waits));
    }
    said.dedup();
    ensure!(said.len() == 1, "{said:?}");
    ensure!(waited > 0, "nobody said that it waits");
    let listed = ground.kept(&["list"])?;
    ensure!(listed.lines().count() == 1 && listed.contains("built from"), "{listed}");
    Ok(())
}
