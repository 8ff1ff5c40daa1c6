//! Packages that the files of projects list, and programs of packages.

use std::fs;

use anyhow::{Result, ensure};
use codebox_testkit::{Codebox, Kit};

use crate::index::{Index, hex, pure, unique};
use crate::{Case, run, run_expecting_failure, run_successfully, without_engines};

pub const CASES: &[Case] = &[
    ("projects_have_their_packages", projects_have_their_packages),
    ("locks_of_projects_apply", locks_of_projects_apply),
    ("programs_of_packages_run", programs_of_packages_run),
];

fn projects_have_their_packages(kit: &Kit) -> Result<()> {
    let (listed, other) = (unique("listed"), unique("other"));
    let (module, other_module) = (listed.replace('-', "_"), other.replace('-', "_"));
    let index = Index::of([
        pure(&listed, "1", &[], &[(&format!("{module}.py"), "x = 1\n")]),
        pure(&other, "2", &[], &[(&format!("{other_module}.py"), "x = 2\n")]),
    ])?;
    let dir = kit.folder()?;
    let path = |name: &str| dir.path().join(name);
    fs::create_dir_all(path("src/app"))?;
    fs::write(path("src/app/__init__.py"), format!("import {module}\nx = {module}.x\n"))?;
    fs::write(path("main.py"), "import app\nprint(app.x)\n")?;
    fs::write(path("pyproject.toml"), format!("[project]\nname = 'app'\ndependencies = ['{listed}>=1']\n"))?;
    fs::write(path("requirements.txt"), format!("{other}\n"))?;
    let project = |args: &[&str]| run(kit, &index).args(["--project", "."]).args(args).folder(dir.path());
    ensure!(run_successfully(project(&["main.py"]))? == "1\n");
    // The requirements are those of the [project] table, or of requirements.txt without it, and -r replaces both.
    let text = format!(
        "import importlib.util as u; print(u.find_spec('{module}') is not None, u.find_spec('{other_module}') is not None)"
    );
    ensure!(run_successfully(project(&["-c", &text]))? == "True False\n");
    ensure!(run_successfully(project(&["-r", "requirements.txt", "-c", &text]))? == "False True\n");
    fs::write(path("pyproject.toml"), "[tool.other]\n")?;
    ensure!(run_successfully(project(&["-c", &text]))? == "False True\n");
    fs::write(path("pyproject.toml"), "[project]\ndependencies = ['a @ https://example.org/a.whl']\n")?;
    let output = run_expecting_failure(project(&["main.py"]), "invalid_request")?;
    ensure!(output.contains("cannot read ./pyproject.toml: "), "{output}");
    Ok(())
}

fn locks_of_projects_apply(kit: &Kit) -> Result<()> {
    let name = unique("locked");
    let module = name.replace('-', "_");
    let file = |version: &str| pure(&name, version, &[], &[(&format!("{module}.py"), &format!("x = '{version}'\n"))]);
    let digest = hex(&file("1.0").content);
    let index = Index::of([file("1.0"), file("2.0")])?;
    let dir = kit.folder()?;
    let path = |name: &str| dir.path().join(name);
    fs::write(path("pyproject.toml"), format!("[project]\nname = 'app'\ndependencies = ['{name}']\n"))?;
    let program = format!("import {module}; print({module}.x)");
    let project = || run(kit, &index).args(["--project", ".", "-c", &program]).folder(dir.path());
    ensure!(run_successfully(project())? == "2.0\n");
    let lock = |digest: &str| {
        format!(
            "version = 1\n[[package]]\nname = 'app'\nversion = '0'\nsource = {{ virtual = '.' }}\ndependencies = [{{ name = '{name}' }}]\n\
             [[package]]\nname = '{name}'\nversion = '1.0'\nsource = {{ registry = 'https://index.example/' }}\n\
             wheels = [{{ url = 'https://index.example/a.whl', hash = 'sha256:{digest}' }}]\n"
        )
    };
    fs::write(path("uv.lock"), lock(&digest))?;
    ensure!(run_successfully(project())? == "1.0\n");
    // Another content under the locked version is refused.
    fs::write(path("uv.lock"), lock(&"0".repeat(64)))?;
    let output = run_expecting_failure(project(), "install_failed")?;
    ensure!(output.contains("hash mismatch"), "{output}");
    fs::write(path("uv.lock"), lock(&digest).replace("hash = 'sha256:", "hash = 'sha512:"))?;
    let output = run_expecting_failure(project(), "invalid_request")?;
    ensure!(output.contains("has a hash that is not sha256"), "{output}");
    fs::write(path("uv.lock"), lock(&digest).replace(&format!("[{{ name = '{name}' }}]"), "[]"))?;
    let output = run_expecting_failure(project(), "invalid_request")?;
    ensure!(output.contains(&format!("it lacks {name} of pyproject.toml")), "{output}");
    fs::write(path("uv.lock"), "version = 1\n")?;
    let output = run_expecting_failure(project(), "invalid_request")?;
    ensure!(output.contains("cannot read ./uv.lock: it does not contain the project itself"), "{output}");
    Ok(())
}

fn programs_of_packages_run(kit: &Kit) -> Result<()> {
    let name = unique("tool");
    let (module, helper) = (name.replace('-', "_"), unique("helper"));
    let main = "import sys, os\ndef main():\n    print(sys.argv[1:], sorted(os.listdir()))\n    return 3\n";
    let scripts = format!("[console_scripts]\n{name} = {module}.cli:main\nother-tool = {module}.cli:main\n");
    let members = [
        (format!("{module}/__init__.py"), String::new()),
        (format!("{module}/cli.py"), main.to_owned()),
        (format!("{module}-1.0.dist-info/entry_points.txt"), scripts),
    ];
    let members: Vec<(&str, &str)> = members.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let index = Index::of([pure(&name, "1.0", &[], &members), pure(&helper, "1", &[], &[])])?;
    let dir = kit.folder()?;
    fs::write(dir.path().join("a.txt"), "text")?;
    fs::write(dir.path().join(".env"), "A=1")?;
    let x = |args: &[&str]| -> Codebox {
        without_engines(kit.codebox().env("UV_DEFAULT_INDEX", index.address.as_str()))
            .arg("x")
            .args(args)
            .folder(dir.path())
    };
    for (args, expected) in [
        (&[name.as_str(), "-q", "--json"][..], "['-q', '--json'] []\n"),
        (&["--with", &helper, &format!("{name}@1.0"), "-m", "a.txt"], "['-m', 'a.txt'] ['a.txt']\n"),
        (&["--no-project", "--from", &name, "other-tool", "a.txt"], "['a.txt'] []\n"),
    ] {
        let ran = x(args).run()?;
        ensure!(
            ran.code == Some(3) && ran.stdout_text() == expected,
            "{args:?}: {} {}",
            ran.stdout_text(),
            ran.stderr_text()
        );
    }
    // A module of the project does not replace that of the tool.
    fs::create_dir_all(dir.path().join(&module))?;
    for file in ["__init__.py", "cli.py"] {
        fs::write(dir.path().join(&module).join(file), "print('theirs')\ndef main(): return 0\n")?;
    }
    let ran = x(&["--project", ".", &name]).run()?;
    ensure!(
        ran.code == Some(3) && !ran.stdout_text().contains("theirs"),
        "{} {}",
        ran.stdout_text(),
        ran.stderr_text()
    );
    let missing = x(&["--from", &name, "absent"]).run()?;
    let stderr = missing.stderr_text();
    let is_listed = [name.as_str(), "other-tool"].iter().all(|name| stderr.contains(name));
    ensure!(missing.code == Some(127) && is_listed && stderr.contains("absent: no program of this name"), "{stderr}");
    let refused = x(&["../tool"]).run()?;
    ensure!(
        refused.code == Some(125) && refused.stderr_text().contains("cannot run ../tool: "),
        "{}",
        refused.stderr_text()
    );
    Ok(())
}
