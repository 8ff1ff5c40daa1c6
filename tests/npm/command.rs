//! `codebox run --with` for programs in JavaScript and TypeScript.

use std::fs;
use std::sync::LazyLock;

use anyhow::{Result, ensure};
use codebox_testkit::{Codebox, Kit, check_engine};
use libtest_mimic::Trial;
use serde_json::json;

use super::registry::Registry;
use super::{completion, unavailable};

type Case = (&'static str, fn(&Kit) -> Result<()>);

const CASES: &[Case] = &[
    ("installs_and_caches_packages", installs_and_caches_packages),
    ("strips_types_with_packages", strips_types_with_packages),
    ("rejects_native_package_in_wasm", rejects_native_package_in_wasm),
    ("rejects_install_scripts", rejects_install_scripts),
    ("writes_and_honours_lock", writes_and_honours_lock),
    ("reports_unused_lock", reports_unused_lock),
    ("reports_invalid_lock_once", reports_invalid_lock_once),
    ("rejects_invalid_specs", rejects_invalid_specs),
    ("suggests_fix_for_unreachable_registry", suggests_fix_for_unreachable_registry),
    ("lists_and_prunes_packages", lists_and_prunes_packages),
    ("uses_only_configured_registry", uses_only_configured_registry),
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
                Ok(()) => completion(case(&kit)),
                Err(reason) => unavailable("wasm", reason),
            })
        })
        .collect();
    for engine in ["docker", "podman"] {
        let (kit, ready) = (kit.clone(), ready.clone());
        trials.push(Trial::ignorable_test(format!("command::{engine}::installs_native_package"), move || {
            match (&**ready, check_engine(&kit, engine)) {
                (Err(reason), _) => unavailable("wasm", reason),
                (_, Err(reason)) => unavailable(engine, &format!("{reason:#}")),
                (Ok(()), Ok(())) => completion(installs_native_package(&kit, engine)),
            }
        }));
    }
    trials
}

/// Returns a run with this registry and no other, and without container engines.
fn run(kit: &Kit, registry: &Registry) -> Codebox {
    configured(kit.run_json(), registry)
        .env("DOCKER_HOST", "unix:///no/docker.sock")
        .env("CONTAINER_HOST", "unix:///no/podman.sock")
}

fn configured(codebox: Codebox, registry: &Registry) -> Codebox {
    codebox
        .env("NPM_CONFIG_REGISTRY", registry.address.as_str())
        .env("NPM_CONFIG_USERCONFIG", "/no/npmrc")
        .env("NPM_CONFIG_FETCH_RETRIES", "0")
        .env("UV_NO_CONFIG", "1")
        .env("NO_PROXY", "127.0.0.1")
}

/// Runs a program that must succeed in WebAssembly and returns its output.
fn run_successfully(codebox: Codebox) -> Result<String> {
    let result = codebox.run()?;
    let report = result.report()?;
    ensure!(report.kind() == "ok", "{}\n{}", result.stdout_text(), result.stderr_text());
    ensure!(report.at("/provenance/isolation") == "wasm", "{}", result.stdout_text());
    Ok(report.stdout().to_owned())
}

/// Runs a program that must fail with this kind and returns the report's text.
fn run_expecting_failure(codebox: Codebox, kind: &str) -> Result<String> {
    let result = codebox.run()?;
    ensure!(result.report()?.kind() == kind, "not {kind}: {}\n{}", result.stdout_text(), result.stderr_text());
    Ok(result.stdout_text())
}

/// Returns a name that no other run has used.
fn unique(name: &str) -> String {
    format!("{name}-{:x}", std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos()))
}

fn installs_and_caches_packages(kit: &Kit) -> Result<()> {
    let (top, need) = (unique("top"), unique("need"));
    let folder = kit.folder()?;
    let marker = folder.path().join("ran");
    let scripts = json!({"postinstall": format!("touch {}", marker.display())});
    let registry = Registry::of(&[
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
    for program_name in ["node", "npm", "npx", "sh", "git", "python3"] {
        let path = folder.path().join(program_name);
        fs::write(&path, format!("#!/bin/sh\n: > {}\n", marker.display()))?;
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    }
    let job = || {
        let job = run(kit, &registry).env("PATH", folder.path().as_os_str());
        job.args(["--lang", "js", "--with", &format!("{top}@^1"), "-c", &program])
    };
    ensure!(run_successfully(job())? == "42\nread-only\n");
    let request_count = registry.request_count();
    ensure!(run_successfully(job())? == "42\nread-only\n");
    ensure!(run_successfully(job().env("NPM_CONFIG_OFFLINE", "true"))? == "42\nread-only\n");
    ensure!(registry.request_count() == request_count && request_count == 4, "{request_count}");
    ensure!(!marker.exists(), "the install script ran");
    Ok(())
}

fn strips_types_with_packages(kit: &Kit) -> Result<()> {
    let name = unique("typed");
    let registry = Registry::of(&[(json!({"name": name, "version": "1.0.0"}), &[("index.js", "exports.n = 7")])])?;
    let folder = kit.folder()?;
    fs::write(
        folder.path().join("p.ts"),
        format!("import {{ n }} from '{name}'; const m: number = n; console.log(m);"),
    )?;
    ensure!(run_successfully(run(kit, &registry).folder(folder.path()).args(["--with", &name, "p.ts"]))? == "7\n");
    Ok(())
}

fn rejects_native_package_in_wasm(kit: &Kit) -> Result<()> {
    let name = unique("native");
    let registry = Registry::of(&[(json!({"name": name, "version": "1.0.0"}), &[("build/Release/a.node", "x")])])?;
    // The run accepts only WebAssembly.
    let output = run_expecting_failure(
        run(kit, &registry).args(["--lang", "js", "--with", &name, "-c", "1"]),
        "invalid_request",
    )?;
    ensure!(output.contains(&name), "{output}");
    Ok(())
}

fn rejects_install_scripts(kit: &Kit) -> Result<()> {
    let name = unique("builds");
    let registry = Registry::of(&[(json!({"name": name, "version": "1.0.0"}), &[("binding.gyp", "{}")])])?;
    let output = run_expecting_failure(
        run(kit, &registry).args(["--lang", "js", "--with", &name, "-c", "1"]),
        "install_failed",
    )?;
    ensure!(output.contains("install script, which codebox never runs"), "{output}");
    Ok(())
}

fn writes_and_honours_lock(kit: &Kit) -> Result<()> {
    let name = unique("locked");
    let old: (_, &[_]) = (json!({"name": name, "version": "1.0.0"}), &[("index.js", "module.exports = 'old'")]);
    let new: (_, &[_]) = (json!({"name": name, "version": "1.1.0"}), &[("index.js", "module.exports = 'new'")]);
    let folder = kit.folder()?;
    fs::write(folder.path().join("p.js"), format!("console.log(require('{name}'))"))?;
    let registry = Registry::of(std::slice::from_ref(&old))?;
    let lock =
        configured(kit.codebox(), &registry).folder(folder.path()).args(["lock", "--with", &name, "p.js"]).run()?;
    ensure!(lock.code == Some(0), "{}", lock.stderr_text());
    let text = fs::read_to_string(folder.path().join("p.js.lock"))?;
    ensure!(text.contains("version = \"1.0.0\"") && text.contains("integrity = \"sha512-"), "{text}");
    let first_address = registry.address.clone();
    // The locked version applies even if the registry has a newer one.
    let registry = Registry::of(&[old, new])?;
    let job = || run(kit, &registry).folder(folder.path()).args(["--with", &name, "p.js"]);
    ensure!(run_successfully(job())? == "old\n");
    // The lock file comes with the program: it selects the packages, but it cannot select the registry or substitute
    // one package for another.
    let evil = unique("evil");
    let other_registry = Registry::of(&[
        (json!({"name": name, "version": "1.0.0"}), &[("index.js", "module.exports = 'elsewhere'")]),
        (json!({"name": evil, "version": "1.0.0"}), &[("index.js", "module.exports = 'evil'")]),
    ])?;
    let lock_at = folder.path().join("p.js.lock");
    let create_lock = |registry: &Registry, with: &str| -> Result<String> {
        let create_lock =
            configured(kit.codebox(), registry).folder(folder.path()).args(["lock", "--with", with, "p.js"]).run()?;
        ensure!(create_lock.code == Some(0), "{}", create_lock.stderr_text());
        Ok(fs::read_to_string(&lock_at)?)
    };
    let integrity = text.split("integrity = \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
    let other = codebox_packages::Integrity::of(b"another archive").to_string();
    fs::write(&lock_at, text.replace(integrity, &other).replace(&first_address, &other_registry.address))?;
    let output = run_expecting_failure(job(), "install_failed")?;
    ensure!(output.contains("integrity") && other_registry.request_count() == 0, "{output}");
    let evil_lock = create_lock(&other_registry, &evil)?;
    fs::write(&lock_at, evil_lock.replace(&evil, &name))?;
    let output = run_expecting_failure(job(), "invalid_request")?;
    ensure!(output.contains(" contains "), "{output}");
    fs::write(&lock_at, &text)?;
    ensure!(run_successfully(job())? == "old\n");
    let other = run(kit, &registry).folder(folder.path()).args(["--with", &format!("{name}@1.1.0"), "p.js"]);
    let output = run_expecting_failure(other, "invalid_request")?;
    ensure!(output.contains("p.js.lock"), "{output}");
    fs::remove_file(folder.path().join("p.js.lock"))?;
    ensure!(run_successfully(job())? == "new\n");
    Ok(())
}

fn reports_unused_lock(kit: &Kit) -> Result<()> {
    let (name, other) = (unique("unrequested"), unique("other"));
    let files: &[_] = &[("index.js", "module.exports = 7")];
    let registry = Registry::of(&[
        (json!({"name": name, "version": "1.2.0"}), files),
        (json!({"name": other, "version": "1.2.0"}), files),
    ])?;
    let folder = kit.folder()?;
    let at = |name: &str| folder.path().join(name);
    let program = format!("console.log(require('{name}'))");
    fs::write(at("p.js"), &program)?;
    let ranged = format!("{other}@^1 || 2");
    let lock = configured(kit.codebox(), &registry).folder(folder.path());
    let lock = lock.args(["lock", "--with", &name, "--with", &ranged, "p.js"]).run()?;
    ensure!(lock.code == Some(0), "{}", lock.stderr_text());
    let request_count = registry.request_count();
    // The names are sorted as in the lock.
    let line = format!("p.js.lock was created for {ranged}, {name}, but no packages are requested");
    let fix = format!("--with '{ranged}' --with {name}, or remove the lock file");
    for command in ["run", "explain"] {
        let refusal = configured(kit.codebox(), &registry).folder(folder.path()).args([command, "p.js"]).run()?;
        let expected = format!("codebox: {line}\n  fix: {fix}\n");
        ensure!(
            refusal.code == Some(125) && refusal.stderr_text() == expected,
            "{:?} {}",
            refusal.code,
            refusal.stderr_text()
        );
    }
    ensure!(registry.request_count() == request_count, "registry was contacted");
    let both = ["--with", &name, "--with", &ranged, "p.js"];
    ensure!(run_successfully(run(kit, &registry).folder(folder.path()).args(both))? == "7\n");
    // A lock file of another tool, or an invalid one, does not affect a run that requests no packages.
    fs::write(at("plain.js"), "console.log(1)")?;
    let plain = || run(kit, &registry).folder(folder.path()).arg("plain.js");
    for text in ["", "{\"lockfileVersion\": 3}", "version = 1\nasked = []\n", "version = 1\nasked = ['../x']\n"] {
        fs::write(at("plain.js.lock"), text)?;
        ensure!(run_successfully(plain())? == "1\n", "{text:?}");
    }
    fs::remove_file(at("plain.js.lock"))?;
    fs::create_dir(at("plain.js.lock"))?;
    ensure!(run_successfully(plain())? == "1\n");
    // Code of `-c` has no file, so a lock does not apply to it.
    fs::copy(at("p.js.lock"), at("-c.lock"))?;
    ensure!(
        run_successfully(run(kit, &registry).folder(folder.path()).args(["--lang", "js", "-c", "console.log(2)"]))?
            == "2\n"
    );
    Ok(())
}

fn reports_invalid_lock_once(kit: &Kit) -> Result<()> {
    let registry = Registry::of(&[])?;
    let folder = kit.folder()?;
    fs::write(folder.path().join("p.ts"), "console.log(1)")?;
    for (text, detail) in [
        ("", "version is missing"),
        ("version = 2\n", "expected version 1"),
        ("version = 1\n", "missing field `asked`"),
    ] {
        fs::write(folder.path().join("p.ts.lock"), text)?;
        let job = configured(kit.codebox(), &registry).folder(folder.path());
        let refusal = job.args(["run", "--with", "lodash", "p.ts"]).run()?;
        let line = format!("codebox: cannot use p.ts.lock: not a codebox lock file: {detail}\n");
        let fix = "  fix: remove it, or recreate it with codebox lock\n";
        ensure!(
            refusal.code == Some(125) && refusal.stderr_text() == line + fix,
            "{text:?}: {}",
            refusal.stderr_text()
        );
    }
    ensure!(registry.request_count() == 0);
    Ok(())
}

/// The message names the variable only if it would take effect.
fn suggests_fix_for_unreachable_registry(kit: &Kit) -> Result<()> {
    let registry = Registry::of(&[])?;
    let home = kit.folder()?;
    kit.home_with_engine(home.path(), "docker", "")?;
    let unreachable_url = "http://127.0.0.1:1/";
    let name = unique("unreachable");
    let job = || run(kit, &registry).home(home.path()).env("NPM_CONFIG_REGISTRY", unreachable_url);
    let refusal =
        || run_expecting_failure(job().args(["--lang", "js", "--with", &name, "-c", "1"]), "engine_unavailable");
    let output = refusal()?;
    ensure!(output.contains("or set NPM_CONFIG_REGISTRY"), "{output}");
    let config = home.path().join("config/config.toml");
    let text = fs::read_to_string(&config)?;
    fs::write(&config, format!("{text}[packages]\nregistry = \"{unreachable_url}\"\n"))?;
    let output = refusal()?;
    ensure!(output.contains("packages.registry") && !output.contains("NPM_CONFIG_REGISTRY"), "{output}");
    Ok(())
}

fn rejects_invalid_specs(kit: &Kit) -> Result<()> {
    let registry = Registry::of(&[])?;
    for spec in
        ["../x", "file:x", "git+ssh://x/y", "http://127.0.0.1/x.tgz", "-r/etc/passwd", "a;b", "a@npm:b@1", "x\ny"]
    {
        let output = run_expecting_failure(
            run(kit, &registry).args(["--lang", "js", "--with", spec, "-c", "1"]),
            "invalid_request",
        )?;
        ensure!(output.contains("is not allowed"), "{spec}: {output}");
    }
    for (spec, module) in [("fs", "fs"), ("node:path", "path"), ("fs/promises", "fs/promises")] {
        let output = run_expecting_failure(
            run(kit, &registry).args(["--lang", "js", "--with", spec, "-c", "1"]),
            "invalid_request",
        )?;
        ensure!(output.contains(&format!("{module} is built into Node")), "{spec}: {output}");
    }
    ensure!(registry.request_count() == 0);
    let output = run_expecting_failure(
        run(kit, &registry).args(["--lang", "js", "--with", "fs@latest", "-c", "1"]),
        "install_failed",
    )?;
    ensure!(output.contains("fs is not in registry"), "{output}");
    let output = run_expecting_failure(
        run(kit, &registry).args(["--lang", "js", "--with", "lodahs", "-c", "1"]),
        "install_failed",
    )?;
    ensure!(output.contains("lodahs is not in registry") && output.contains("lodash"), "{output}");
    Ok(())
}

/// Uses a separate home, because the test prunes all unused packages.
fn lists_and_prunes_packages(kit: &Kit) -> Result<()> {
    let home = kit.folder()?;
    kit.home_with_engine(home.path(), "docker", "")?;
    let name = unique("kept");
    let registry = Registry::of(&[(json!({"name": name, "version": "1.2.3"}), &[("index.js", "module.exports = 7")])])?;
    let program = format!("console.log(require('{name}'))");
    let job = || run(kit, &registry).home(home.path()).args(["--lang", "js", "--with", &name, "-c", &program]);
    let packages =
        |arguments: &[&str]| kit.codebox().home(home.path()).arg("packages").args(arguments.iter().copied()).run();
    ensure!(run_successfully(job())? == "7\n");
    let listed = packages(&["list"])?.stdout_text();
    ensure!(listed.contains(&format!("{name}@1.2.3")) && listed.contains("npm"), "{listed}");
    let shown = packages(&["show", &name])?.stdout_text();
    ensure!(shown.contains("sha512-"), "{shown}");
    let pruned = packages(&["prune"])?;
    ensure!(pruned.stdout_text().starts_with("removed 2 "), "{} {}", pruned.stdout_text(), pruned.stderr_text());
    ensure!(packages(&["list"])?.stdout_text() == "no packages are stored\n");
    let request_count = registry.request_count();
    ensure!(run_successfully(job())? == "7\n");
    ensure!(registry.request_count() > request_count, "the package was not pruned");
    Ok(())
}

fn uses_only_configured_registry(kit: &Kit) -> Result<()> {
    let (name, scoped) = (unique("only"), format!("@cbt/{}", unique("scoped")));
    let packages = [
        (json!({"name": name, "version": "1.0.0"}), &[("index.js", "module.exports = 'named'")][..]),
        (json!({"name": scoped, "version": "1.0.0"}), &[("index.js", "module.exports = 'named'")][..]),
    ];
    let (named, other) = (Registry::of(&packages)?, Registry::of(&packages)?);
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
        ensure!(run_successfully(job.args(["--lang", "js", "--with", name, "-c", &program]))? == "named\n");
    }
    ensure!(
        other.request_count() == 0 && named.request_count() == 4,
        "{} {}",
        other.request_count(),
        named.request_count()
    );
    Ok(())
}

/// Native packages lead to a container, which gets the same packages.
fn installs_native_package(kit: &Kit, engine: &str) -> Result<()> {
    let name = unique("native");
    let registry = Registry::of(&[(
        json!({"name": name, "version": "1.0.0"}),
        &[("index.js", "module.exports = 'ready'"), ("prebuilds/linux-x64/a.node", "x")],
    )])?;
    let program = format!("console.log(require('{name}'), require.resolve('{name}'))");
    let home = kit.folder()?;
    kit.home_with_engine(home.path(), engine, "")?;
    let job = || {
        let job = kit.codebox().home(home.path()).args(["run", "--json"]).inherit_env();
        configured(job, &registry).args(["--lang", "js", "--with", &name, "-c", &program])
    };
    let mut request_count = 0;
    for run_name in ["the first", "the second"] {
        let result = job().run()?;
        let report = result.report()?;
        let expected = format!("ready /node_modules/{name}/index.js\n");
        ensure!(report.stdout() == expected, "{run_name}: {}\n{}", result.stdout_text(), result.stderr_text());
        ensure!(report.at("/provenance/isolation") == "container", "{}", result.stdout_text());
        ensure!(
            request_count == 0 || registry.request_count() == request_count,
            "{run_name} contacted the registry again"
        );
        request_count = registry.request_count();
    }
    Ok(())
}
