//! `codebox run --with` for programs in JavaScript and TypeScript.

use std::fs;
use std::sync::LazyLock;

use anyhow::{Result, ensure};
use codebox_testkit::{Codebox, Kit, engine_answers};
use libtest_mimic::Trial;
use serde_json::json;

use super::served::Served;
use super::{completed, without};

type Case = (&'static str, fn(&Kit) -> Result<()>);

const CASES: &[Case] = &[
    ("packages_are_there_and_the_second_run_asks_nobody", there),
    ("types_are_taken_out_of_a_program_with_packages", typed),
    ("a_native_package_is_not_for_wasm", native),
    ("a_script_that_would_build_is_refused", builds),
    ("a_lock_is_written_and_kept_to", locked),
    ("a_lock_that_nothing_is_asked_for_with_is_told", unasked),
    ("a_file_that_is_no_lock_is_told_once", no_lock),
    ("what_is_no_package_is_refused", refused),
    ("what_would_help_where_nobody_answers_is_told", unreachable),
    ("packages_are_listed_and_pruned", kept),
    ("the_configuration_names_the_only_registry", only_registry),
];

pub fn trials(kit: &Kit) -> Vec<Trial> {
    let ready = std::sync::Arc::new(LazyLock::new({
        let kit = kit.clone();
        move || kit.prepare().map_err(|error| format!("{error:#}"))
    }));
    let mut trials: Vec<Trial> = CASES
        .iter()
        .map(|(name, case)| {
            let (kit, ready) = (kit.clone(), ready.clone());
            Trial::ignorable_test(format!("command::{name}"), move || match &**ready {
                Ok(()) => completed(case(&kit)),
                Err(reason) => without("wasm", reason),
            })
        })
        .collect();
    for engine in ["docker", "podman"] {
        let (kit, ready) = (kit.clone(), ready.clone());
        trials.push(Trial::ignorable_test(format!("command::{engine}::a_native_package"), move || {
            match (&**ready, engine_answers(&kit, engine)) {
                (Err(reason), _) => without("wasm", reason),
                (_, Err(reason)) => without(engine, &format!("{reason:#}")),
                (Ok(()), Ok(())) => completed(in_container(&kit, engine)),
            }
        }));
    }
    trials
}

/// Returns a run with this registry and no other, and without container engines.
fn run(kit: &Kit, served: &Served) -> Codebox {
    configured(kit.run_json(), served)
        .env("DOCKER_HOST", "unix:///no/docker.sock")
        .env("CONTAINER_HOST", "unix:///no/podman.sock")
}

fn configured(codebox: Codebox, served: &Served) -> Codebox {
    codebox
        .env("NPM_CONFIG_REGISTRY", served.address.as_str())
        .env("NPM_CONFIG_USERCONFIG", "/no/npmrc")
        .env("NPM_CONFIG_FETCH_RETRIES", "0")
        .env("UV_NO_CONFIG", "1")
        .env("NO_PROXY", "127.0.0.1")
}

/// Runs a program that must succeed in WebAssembly and returns its output.
fn printed(codebox: Codebox) -> Result<String> {
    let ran = codebox.run()?;
    let report = ran.report()?;
    ensure!(report.kind() == "ok", "{}\n{}", ran.stdout_text(), ran.stderr_text());
    ensure!(report.at("/provenance/isolation") == "wasm", "{}", ran.stdout_text());
    Ok(report.stdout().to_owned())
}

/// Runs a program that must fail with this kind and returns the report's text.
fn failed(codebox: Codebox, kind: &str) -> Result<String> {
    let ran = codebox.run()?;
    ensure!(ran.report()?.kind() == kind, "not {kind}: {}\n{}", ran.stdout_text(), ran.stderr_text());
    Ok(ran.stdout_text())
}

/// Returns a name that no other run has used.
fn unique(name: &str) -> String {
    format!("{name}-{:x}", std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos()))
}

fn there(kit: &Kit) -> Result<()> {
    let (top, need) = (unique("top"), unique("need"));
    let folder = kit.folder()?;
    let mark = folder.path().join("ran");
    let scripts = json!({"postinstall": format!("touch {}", mark.display())});
    let served = Served::of(&[
        (
            json!({"name": top, "version": "1.2.0", "type": "module", "exports": {"import": "./top.js"},
                "dependencies": {&need: "^1"}, "scripts": scripts, "hasInstallScript": true}),
            &[("top.js", &format!("import need from '{need}'; export const twice = need * 2"))],
        ),
        (json!({"name": need, "version": "1.9.0", "main": "lib/n"}), &[("lib/n.js", "module.exports = 21")]),
        (json!({"name": need, "version": "2.0.0"}), &[("index.js", "module.exports = 0")]),
    ])?;
    let program = format!(
        "import {{ twice }} from '{top}'; import fs from 'node:fs'; console.log(twice);
         try {{ fs.writeFileSync('/node_modules/{top}/top.js', ''); }} catch (error) {{ console.log('read-only'); }}"
    );
    // The run would find these programs by name.
    for started in ["node", "npm", "npx", "sh", "git", "python3"] {
        let path = folder.path().join(started);
        fs::write(&path, format!("#!/bin/sh\n: > {}\n", mark.display()))?;
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    }
    let job = || {
        let job = run(kit, &served).env("PATH", folder.path().as_os_str());
        job.args(["--lang", "js", "--with", &format!("{top}@^1"), "-c", &program])
    };
    ensure!(printed(job())? == "42\nread-only\n");
    let asked = served.asked();
    ensure!(printed(job())? == "42\nread-only\n");
    ensure!(printed(job().env("NPM_CONFIG_OFFLINE", "true"))? == "42\nread-only\n");
    ensure!(served.asked() == asked && asked == 4, "{asked}");
    ensure!(!mark.exists(), "its script ran");
    Ok(())
}

fn typed(kit: &Kit) -> Result<()> {
    let name = unique("typed");
    let served = Served::of(&[(json!({"name": name, "version": "1.0.0"}), &[("index.js", "exports.n = 7")])])?;
    let folder = kit.folder()?;
    fs::write(
        folder.path().join("p.ts"),
        format!("import {{ n }} from '{name}'; const m: number = n; console.log(m);"),
    )?;
    ensure!(printed(run(kit, &served).folder(folder.path()).args(["--with", &name, "p.ts"]))? == "7\n");
    Ok(())
}

fn native(kit: &Kit) -> Result<()> {
    let name = unique("native");
    let served = Served::of(&[(json!({"name": name, "version": "1.0.0"}), &[("build/Release/a.node", "x")])])?;
    // The run accepts only WebAssembly.
    let said = failed(run(kit, &served).args(["--lang", "js", "--with", &name, "-c", "1"]), "invalid_request")?;
    ensure!(said.contains(&name), "{said}");
    Ok(())
}

fn builds(kit: &Kit) -> Result<()> {
    let name = unique("builds");
    let served = Served::of(&[(json!({"name": name, "version": "1.0.0"}), &[("binding.gyp", "{}")])])?;
    let said = failed(run(kit, &served).args(["--lang", "js", "--with", &name, "-c", "1"]), "install_failed")?;
    ensure!(said.contains("install script, which codebox never runs"), "{said}");
    Ok(())
}

fn locked(kit: &Kit) -> Result<()> {
    let name = unique("locked");
    let old: (_, &[_]) = (json!({"name": name, "version": "1.0.0"}), &[("index.js", "module.exports = 'old'")]);
    let new: (_, &[_]) = (json!({"name": name, "version": "1.1.0"}), &[("index.js", "module.exports = 'new'")]);
    let folder = kit.folder()?;
    fs::write(folder.path().join("p.js"), format!("console.log(require('{name}'))"))?;
    let served = Served::of(std::slice::from_ref(&old))?;
    let lock =
        configured(kit.codebox(), &served).folder(folder.path()).args(["lock", "--with", &name, "p.js"]).run()?;
    ensure!(lock.code == Some(0), "{}", lock.stderr_text());
    let text = fs::read_to_string(folder.path().join("p.js.lock"))?;
    ensure!(text.contains("version = \"1.0.0\"") && text.contains("integrity = \"sha512-"), "{text}");
    let served_first = served.address.clone();
    // The locked version applies even if the registry has a newer one.
    let served = Served::of(&[old, new])?;
    let job = || run(kit, &served).folder(folder.path()).args(["--with", &name, "p.js"]);
    ensure!(printed(job())? == "old\n");
    // The lock file comes with the program: it selects the packages, but it cannot select the registry or substitute
    // one package for another.
    let evil = unique("evil");
    let elsewhere = Served::of(&[
        (json!({"name": name, "version": "1.0.0"}), &[("index.js", "module.exports = 'elsewhere'")]),
        (json!({"name": evil, "version": "1.0.0"}), &[("index.js", "module.exports = 'evil'")]),
    ])?;
    let lock_at = folder.path().join("p.js.lock");
    let made = |served: &Served, with: &str| -> Result<String> {
        let made =
            configured(kit.codebox(), served).folder(folder.path()).args(["lock", "--with", with, "p.js"]).run()?;
        ensure!(made.code == Some(0), "{}", made.stderr_text());
        Ok(fs::read_to_string(&lock_at)?)
    };
    let integrity = text.split("integrity = \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
    let other = codebox_packages::Integrity::of(b"another archive").to_string();
    fs::write(&lock_at, text.replace(integrity, &other).replace(&served_first, &elsewhere.address))?;
    let said = failed(job(), "install_failed")?;
    ensure!(said.contains("integrity") && elsewhere.asked() == 0, "{said}");
    let of_evil = made(&elsewhere, &evil)?;
    fs::write(&lock_at, of_evil.replace(&evil, &name))?;
    let said = failed(job(), "invalid_request")?;
    ensure!(said.contains(" contains "), "{said}");
    fs::write(&lock_at, &text)?;
    ensure!(printed(job())? == "old\n");
    let other = run(kit, &served).folder(folder.path()).args(["--with", &format!("{name}@1.1.0"), "p.js"]);
    let said = failed(other, "invalid_request")?;
    ensure!(said.contains("p.js.lock"), "{said}");
    fs::remove_file(folder.path().join("p.js.lock"))?;
    ensure!(printed(job())? == "new\n");
    Ok(())
}

fn unasked(kit: &Kit) -> Result<()> {
    let (name, other) = (unique("unasked"), unique("other"));
    let files: &[_] = &[("index.js", "module.exports = 7")];
    let served = Served::of(&[
        (json!({"name": name, "version": "1.2.0"}), files),
        (json!({"name": other, "version": "1.2.0"}), files),
    ])?;
    let folder = kit.folder()?;
    let at = |name: &str| folder.path().join(name);
    let program = format!("console.log(require('{name}'))");
    fs::write(at("p.js"), &program)?;
    let ranged = format!("{other}@^1 || 2");
    let lock = configured(kit.codebox(), &served).folder(folder.path());
    let lock = lock.args(["lock", "--with", &name, "--with", &ranged, "p.js"]).run()?;
    ensure!(lock.code == Some(0), "{}", lock.stderr_text());
    let asked = served.asked();
    // The names are sorted as in the lock.
    let line = format!("p.js.lock was created for {ranged}, {name}, but no packages are requested");
    let fix = format!("--with '{ranged}' --with {name}, or remove the lock file");
    for command in ["run", "explain"] {
        let told = configured(kit.codebox(), &served).folder(folder.path()).args([command, "p.js"]).run()?;
        let expected = format!("codebox: {line}\n  fix: {fix}\n");
        ensure!(told.code == Some(125) && told.stderr_text() == expected, "{:?} {}", told.code, told.stderr_text());
    }
    ensure!(served.asked() == asked, "somebody was asked");
    let both = ["--with", &name, "--with", &ranged, "p.js"];
    ensure!(printed(run(kit, &served).folder(folder.path()).args(both))? == "7\n");
    // A lock file of another tool, or an invalid one, does not affect a run that requests no packages.
    fs::write(at("plain.js"), "console.log(1)")?;
    let plain = || run(kit, &served).folder(folder.path()).arg("plain.js");
    for text in ["", "{\"lockfileVersion\": 3}", "version = 1\nasked = []\n", "version = 1\nasked = ['../x']\n"] {
        fs::write(at("plain.js.lock"), text)?;
        ensure!(printed(plain())? == "1\n", "{text:?}");
    }
    fs::remove_file(at("plain.js.lock"))?;
    fs::create_dir(at("plain.js.lock"))?;
    ensure!(printed(plain())? == "1\n");
    // Code of `-c` has no file, so a lock does not apply to it.
    fs::copy(at("p.js.lock"), at("-c.lock"))?;
    ensure!(printed(run(kit, &served).folder(folder.path()).args(["--lang", "js", "-c", "console.log(2)"]))? == "2\n");
    Ok(())
}

fn no_lock(kit: &Kit) -> Result<()> {
    let served = Served::of(&[])?;
    let folder = kit.folder()?;
    fs::write(folder.path().join("p.ts"), "console.log(1)")?;
    for (text, detail) in [
        ("", "version is missing"),
        ("version = 2\n", "expected version 1"),
        ("version = 1\n", "missing field `asked`"),
    ] {
        fs::write(folder.path().join("p.ts.lock"), text)?;
        let job = configured(kit.codebox(), &served).folder(folder.path());
        let told = job.args(["run", "--with", "lodash", "p.ts"]).run()?;
        let line = format!("codebox: cannot use p.ts.lock: not a codebox lock file: {detail}\n");
        let fix = "  fix: remove it, or recreate it with codebox lock\n";
        ensure!(told.code == Some(125) && told.stderr_text() == line + fix, "{text:?}: {}", told.stderr_text());
    }
    ensure!(served.asked() == 0);
    Ok(())
}

/// The message names the variable only if it would take effect.
fn unreachable(kit: &Kit) -> Result<()> {
    let served = Served::of(&[])?;
    let home = kit.folder()?;
    kit.home_with_engine(home.path(), "docker", "")?;
    let nobody = "http://127.0.0.1:1/";
    let name = unique("unreachable");
    let job = || run(kit, &served).home(home.path()).env("NPM_CONFIG_REGISTRY", nobody);
    let told = || failed(job().args(["--lang", "js", "--with", &name, "-c", "1"]), "engine_unavailable");
    let said = told()?;
    ensure!(said.contains("or set NPM_CONFIG_REGISTRY"), "{said}");
    let config = home.path().join("config/config.toml");
    let text = fs::read_to_string(&config)?;
    fs::write(&config, format!("{text}[packages]\nregistry = \"{nobody}\"\n"))?;
    let said = told()?;
    ensure!(said.contains("packages.registry") && !said.contains("NPM_CONFIG_REGISTRY"), "{said}");
    Ok(())
}

fn refused(kit: &Kit) -> Result<()> {
    let served = Served::of(&[])?;
    for spec in
        ["../x", "file:x", "git+ssh://x/y", "http://127.0.0.1/x.tgz", "-r/etc/passwd", "a;b", "a@npm:b@1", "x\ny"]
    {
        let said = failed(run(kit, &served).args(["--lang", "js", "--with", spec, "-c", "1"]), "invalid_request")?;
        ensure!(said.contains("is not allowed"), "{spec}: {said}");
    }
    for (spec, module) in [("fs", "fs"), ("node:path", "path"), ("fs/promises", "fs/promises")] {
        let said = failed(run(kit, &served).args(["--lang", "js", "--with", spec, "-c", "1"]), "invalid_request")?;
        ensure!(said.contains(&format!("{module} is built into Node")), "{spec}: {said}");
    }
    ensure!(served.asked() == 0);
    let said = failed(run(kit, &served).args(["--lang", "js", "--with", "fs@latest", "-c", "1"]), "install_failed")?;
    ensure!(said.contains("fs is not in registry"), "{said}");
    let said = failed(run(kit, &served).args(["--lang", "js", "--with", "lodahs", "-c", "1"]), "install_failed")?;
    ensure!(said.contains("lodahs is not in registry") && said.contains("lodash"), "{said}");
    Ok(())
}

/// Uses a separate home, because the test prunes all unused packages.
fn kept(kit: &Kit) -> Result<()> {
    let home = kit.folder()?;
    kit.home_with_engine(home.path(), "docker", "")?;
    let name = unique("kept");
    let served = Served::of(&[(json!({"name": name, "version": "1.2.3"}), &[("index.js", "module.exports = 7")])])?;
    let program = format!("console.log(require('{name}'))");
    let job = || run(kit, &served).home(home.path()).args(["--lang", "js", "--with", &name, "-c", &program]);
    let packages = |words: &[&str]| kit.codebox().home(home.path()).arg("packages").args(words.iter().copied()).run();
    ensure!(printed(job())? == "7\n");
    let listed = packages(&["list"])?.stdout_text();
    ensure!(listed.contains(&format!("{name}@1.2.3")) && listed.contains("npm"), "{listed}");
    let shown = packages(&["show", &name])?.stdout_text();
    ensure!(shown.contains("sha512-"), "{shown}");
    let pruned = packages(&["prune"])?;
    ensure!(pruned.stdout_text().starts_with("removed 2 "), "{} {}", pruned.stdout_text(), pruned.stderr_text());
    ensure!(packages(&["list"])?.stdout_text() == "no packages are stored\n");
    let asked = served.asked();
    ensure!(printed(job())? == "7\n");
    ensure!(served.asked() > asked, "it was not pruned");
    Ok(())
}

fn only_registry(kit: &Kit) -> Result<()> {
    let (name, scoped) = (unique("only"), format!("@cbt/{}", unique("scoped")));
    let packages = [
        (json!({"name": name, "version": "1.0.0"}), &[("index.js", "module.exports = 'named'")][..]),
        (json!({"name": scoped, "version": "1.0.0"}), &[("index.js", "module.exports = 'named'")][..]),
    ];
    let (named, other) = (Served::of(&packages)?, Served::of(&packages)?);
    let home = kit.folder()?;
    kit.home_with_engine(home.path(), "docker", "")?;
    let rc = home.path().join("npmrc");
    fs::write(&rc, format!("@cbt:registry={}\n", other.address))?;
    let config = home.path().join("config/config.toml");
    let text = fs::read_to_string(&config)?;
    fs::write(&config, format!("{text}[packages]\nregistry = \"{}\"\n", named.address))?;
    for name in [&name, &scoped] {
        let job = run(kit, &other).home(home.path()).env("NPM_CONFIG_USERCONFIG", rc.as_os_str());
        let program = format!("console.log(require('{name}'))");
        ensure!(printed(job.args(["--lang", "js", "--with", name, "-c", &program]))? == "named\n");
    }
    ensure!(other.asked() == 0 && named.asked() == 4, "{} {}", other.asked(), named.asked());
    Ok(())
}

/// Native packages lead to a container, which gets the same packages.
fn in_container(kit: &Kit, engine: &str) -> Result<()> {
    let name = unique("native");
    let served = Served::of(&[(
        json!({"name": name, "version": "1.0.0"}),
        &[("index.js", "module.exports = 'ready'"), ("prebuilds/linux-x64/a.node", "x")],
    )])?;
    let program = format!("console.log(require('{name}'), require.resolve('{name}'))");
    let home = kit.folder()?;
    kit.home_with_engine(home.path(), engine, "")?;
    let job = || {
        let job = kit.codebox().home(home.path()).args(["run", "--json"]).inherit_env();
        configured(job, &served).args(["--lang", "js", "--with", &name, "-c", &program])
    };
    let mut asked = 0;
    for turn in ["the first", "the second"] {
        let ran = job().run()?;
        let report = ran.report()?;
        let expected = format!("ready /node_modules/{name}/index.js\n");
        ensure!(report.stdout() == expected, "{turn}: {}\n{}", ran.stdout_text(), ran.stderr_text());
        ensure!(report.at("/provenance/isolation") == "container", "{}", ran.stdout_text());
        ensure!(asked == 0 || served.asked() == asked, "{turn} asked again");
        asked = served.asked();
    }
    Ok(())
}
